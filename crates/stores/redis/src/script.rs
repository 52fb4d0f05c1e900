//! The scripts: one that compares and then writes, one that reads. They know no rules.

use helix_agents_core::stream::{Incarnation, Sequence};
use redis::{Cmd, Script};

use crate::keys::Shard;

/// Reads the time, compares fields of hashes with what is expected, and performs commands if all are equal.
///
/// The arguments are the hash of a stream (or nothing), the number of comparisons, for each the key, the field and
/// the expected value (empty: there is none), and the commands, each with the number of its words before it. Three
/// commands are special because they need the last sequence of the stream: with 0 words, a batch of chunks is
/// appended; with -1, the end of a turn is noted; with -2, the end of the stream is noted in a field. With -3, before
/// all others, it is compared: the stream must reach to a sequence. What is published is
/// lost where the user has no right to the channel: an error would hide that everything before it was written.
const WRITING: &str = r"
local function write()
  local a, info, i = ARGV, ARGV[1], 3
  local time = redis.call('TIME')
  for _ = 1, tonumber(a[2]) do
    if (redis.call('HGET', a[i], a[i + 1]) or '') ~= a[i + 2] then
      return {0, time[1], time[2], 0}
    end
    i = i + 3
  end
  local count = #a
  while i <= count do
    local words = tonumber(a[i])
    if words == 0 then
      local last = redis.call('HINCRBY', info, 'last', a[i + 2])
      local id = string.format('%.0f-0', last)
      redis.call('XADD', a[i + 1], id, 'n', a[i + 2], 'k', a[i + 3], 'd', a[i + 4])
      i = i + 5
    elseif words == -1 then
      local last = redis.call('HGET', info, 'last') or '0'
      local incarnation = redis.call('HGET', info, 'inc') or '0'
      redis.call('ZADD', a[i + 1], a[i + 2], last .. ':' .. incarnation .. ':' .. a[i + 3])
      i = i + 4
    elseif words == -2 then
      local last = redis.call('HGET', info, 'last') or '0'
      redis.call('HSET', a[i + 1], a[i + 2], a[i + 3] .. ':' .. last)
      i = i + 4
    elseif words == -3 then
      if tonumber(redis.call('HGET', info, 'last') or '0') < tonumber(a[i + 1]) then
        return {0, time[1], time[2], 0}
      end
      i = i + 2
    else
      local call = a[i + 1] == 'PUBLISH' and redis.pcall or redis.call
      call(unpack(a, i + 1, i + words))
      i = i + words + 1
    end
  end
  local last = 0
  if info ~= '' then
    last = redis.call('HGET', info, 'last') or 0
  end
  return {1, time[1], time[2], last}
end
return write()
";

/// Performs commands that read, as of one instant, and returns their answers. One about many fields or members is
/// performed in parts: a script can pass on only so many words.
const READING: &str = r"#!lua flags=no-writes
local a, i, out = ARGV, 1, {}
local function ask(first, last)
  if last - first <= 1001 then
    return redis.call(unpack(a, first, last))
  end
  local all = {}
  for from = first + 2, last, 1000 do
    local part = redis.call(a[first], a[first + 1], unpack(a, from, math.min(from + 999, last)))
    for n = 1, #part do
      all[#all + 1] = part[n]
    end
  end
  return all
end
local count = #a
while i <= count do
  local words = tonumber(a[i])
  out[#out + 1] = ask(i + 1, i + words)
  i = i + words + 1
end
return out
";

/// Reads batches of a stream, what is left of those of which a part was removed, and the bounds of the stream.
///
/// The arguments are the first sequence, the most batches, and how many chunks are wanted, or 0 for those of all batches.
/// It goes on with as many batches as will do if they are like those before; one of which a part was removed counts as
/// one chunk.
const BATCHES: &str = r"#!lua flags=no-writes
local from, most, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local first, has_rests = tonumber((string.match(from, '^%d+'))), redis.call('EXISTS', KEYS[2]) == 1
local entries, rests, chunks = {}, {}, 0
local ask = wanted > 0 and math.min(most, 2) or most
while ask > 0 do
  local part = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', ask)
  for _, entry in ipairs(part) do
    local at = #entries + 1
    entries[at] = entry
    if has_rests then
      rests[at] = redis.call('HGET', KEYS[2], entry[1])
    end
    local last = tonumber((string.match(entry[1], '^%d+')))
    chunks = chunks + (rests[at] and 1 or math.min(tonumber(entry[2][2]), last - first + 1))
    if wanted > 0 and chunks >= wanted then
      break
    end
  end
  if #part < ask or chunks >= wanted then
    break
  end
  from = '(' .. part[#part][1]
  ask = math.ceil((wanted - chunks) * #entries / chunks)
  ask = math.min(ask, 4 * #entries, most - #entries)
end
return {redis.call('HMGET', KEYS[3], 'trimmed', 'last', 'e', 'inc'), entries, rests}
";

/// Reads the ranges of an index, or the members that several indexes have in common.
///
/// The keys are the indexes. The arguments are the lower and the upper bound, how many members are wanted, and `1`
/// for the last ones first. The answer is the number of members between the bounds, and those wanted.
const INDEX: &str = r"#!lua flags=no-writes
local from, to, wanted, last_first = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
if #KEYS == 1 then
  local count = redis.call('ZLEXCOUNT', KEYS[1], from, to)
  if last_first then
    return {count, redis.call('ZREVRANGEBYLEX', KEYS[1], to, from, 'LIMIT', 0, wanted)}
  end
  return {count, redis.call('ZRANGEBYLEX', KEYS[1], from, to, 'LIMIT', 0, wanted)}
end
local all = redis.call('ZINTER', #KEYS, unpack(KEYS))
local low, high = string.sub(from, 2), string.sub(to, 2)
local inside = {}
for _, member in ipairs(all) do
  if (from == '-' or member >= low) and (to == '+' or member <= high) then
    inside[#inside + 1] = member
  end
end
local count, page = #inside, {}
for n = 1, math.min(wanted, count) do
  page[n] = last_first and inside[count + 1 - n] or inside[n]
end
return {count, page}
";

/// Reads due work of a shard, or counts it.
///
/// The key is the set of agents. The arguments are the beginning of the indexes, how the reading ends, and the
/// agents, or none for all of the shard.
const DUE: &str = r"#!lua flags=no-writes
local start, kinds, after, now, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local agents = {}
if #ARGV > 5 then
  for n = 6, #ARGV do agents[#agents + 1] = ARGV[n] end
else
  agents = redis.call('SMEMBERS', KEYS[1])
end
local ranges = {}
for _, agent in ipairs(agents) do
  for kind in string.gmatch(kinds, '%d+') do
    local key = start .. kind .. ':' .. agent
    if limit == 'count' then
      ranges[#ranges + 1] = {kind, redis.call('ZLEXCOUNT', key, '-', now), redis.call('ZCARD', key)}
    else
      local range = redis.call('ZRANGEBYLEX', key, after, now, 'LIMIT', 0, limit)
      if #range > 0 then ranges[#ranges + 1] = range end
    end
  end
end
return ranges
";

/// Returns the commands that the user may not use, of those that the other scripts perform. A point at the end of one
/// means that it is not about the key.
///
/// The arguments are a key and a channel. A server that cannot tell says nothing.
pub(crate) const RIGHTS: &str = r"#!lua flags=no-writes
local key, channel = ARGV[1], ARGV[2]
if not redis.acl_check_cmd then
  return {}
end
local missing = {}
for command in string.gmatch([[
  TIME. HGET.f HMGET.f HSET.f.v HSETNX.f.v HINCRBY.f.1 HDEL.f SADD.m SMEMBERS RPUSH.v LLEN LRANGE.0.1
  ZADD.1.m ZREM.m ZCARD ZSCORE.m ZMSCORE.m ZRANGE.0.1 ZREVRANGE.0.1 ZRANGEBYSCORE.0.1 ZREVRANGEBYSCORE.1.0
  ZREMRANGEBYSCORE.0.1 ZRANGEBYLEX.-.+ ZREVRANGEBYLEX.+.- ZLEXCOUNT.-.+ ZINTER.
  XADD.1-0.f.v XDEL.1-0 XTRIM.MINID.1-0 XRANGE.-.+ UNLINK EXISTS EXPIRE.1 PERSIST PUBLISH.
]], '%S+') do
  local words = {}
  for word in string.gmatch(command, '[^.]+') do
    words[#words + 1] = word
    if #words == 1 and string.sub(command, -1) ~= '.' then
      words[2] = key
    end
  end
  if words[1] == 'ZINTER' then
    words = {'ZINTER', '1', key}
  elseif words[1] == 'PUBLISH' then
    words = {'PUBLISH', channel, 'm'}
  end
  if not redis.acl_check_cmd(unpack(words)) then
    missing[#missing + 1] = words[1]
  end
end
return missing
";

/// The scripts with their hashes.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) write: Prepared,
    pub(crate) write_although_full: Prepared,
    pub(crate) read: Prepared,
    pub(crate) batches: Prepared,
    pub(crate) index: Prepared,
    pub(crate) due: Prepared,
}

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Prepared {
    text: String,
    hash: String,
}

impl Prepared {
    fn new(text: String) -> Self {
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// A call by hash, or with the text for a server that does not know it.
    pub(crate) fn call(&self, by_hash: bool, keys: &[String], arguments: &Arguments) -> Cmd {
        let mut command = match by_hash {
            true => redis::cmd("EVALSHA"),
            false => redis::cmd("EVAL"),
        };
        command.arg(if by_hash { &self.hash } else { &self.text });
        command.arg(keys.len()).arg(keys);
        for argument in &arguments.0 {
            command.arg(argument.as_slice());
        }
        command
    }
}

impl Scripts {
    pub(crate) fn new() -> Self {
        // With these lines, the server checks before the script begins whether it may write and has memory.
        let writing = |flags: &str| Prepared::new(format!("#!lua{flags}{WRITING}"));
        Self {
            write: writing(""),
            write_although_full: writing(" flags=allow-oom"),
            read: Prepared::new(READING.to_owned()),
            batches: Prepared::new(BATCHES.to_owned()),
            index: Prepared::new(INDEX.to_owned()),
            due: Prepared::new(DUE.to_owned()),
        }
    }
}

/// The arguments of a script.
#[derive(Debug, Default, Clone)]
pub(crate) struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    pub(crate) fn push(&mut self, argument: impl Into<Vec<u8>>) {
        self.0.push(argument.into());
    }

    pub(crate) fn of(all: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self(all.into_iter().map(Into::into).collect())
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    fn command(&mut self, words: Vec<Vec<u8>>) {
        self.push(words.len().to_string());
        self.0.extend(words);
    }
}

/// Turns the words of a command into bytes.
macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$(Into::<Vec<u8>>::into($word)),*] };
}
pub(crate) use words;

/// The reads of one instant.
#[derive(Debug, Default)]
pub(crate) struct Reads(pub(crate) Arguments);

impl Reads {
    pub(crate) fn ask(&mut self, words: Vec<Vec<u8>>) {
        self.0.command(words);
    }

    /// Reads the fields of a hash. There is at least one.
    pub(crate) fn fields<'a>(&mut self, key: &str, fields: impl IntoIterator<Item = &'a str>) {
        let mut words = words!["HMGET", key];
        words.extend(fields.into_iter().map(Vec::from));
        self.ask(words);
    }
}

/// The most members or fields in one command: a script can pass on only so many.
const MANY: usize = 1000;

/// A write: what must not have changed since it was read, and the commands.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) shard: Shard,
    /// Whether it is made although the memory is full, because it makes room.
    pub(crate) makes_room: bool,
    /// Whose end is noted when it is written: see [`Acknowledged`](crate::acknowledged::Acknowledged).
    pub(crate) incarnation: Option<Incarnation>,
    info: String,
    comparisons: Arguments,
    commands: Vec<Command>,
}

/// A command of a write.
#[derive(Debug)]
enum Command {
    /// A command of the server.
    Plain(Vec<Vec<u8>>),
    /// One of those that need the last sequence of the stream: its number of words, and its arguments.
    Special(&'static str, Vec<Vec<u8>>),
}

impl Command {
    /// Whether a command that adds to a key can add what another one adds to it after this one.
    fn takes_more(&self, more: &[Vec<u8>]) -> bool {
        let Self::Plain(words) = self else {
            return false;
        };
        let ([name, key, first, ..], [same, also, next, ..]) = (words.as_slice(), more) else {
            return false;
        };
        let is_score = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
        let adds = match name.as_slice() {
            b"RPUSH" | b"HSET" => true,
            // With an option in place of a score it means something else.
            b"ZADD" => is_score(first) && is_score(next),
            _ => false,
        };
        adds && (name, key) == (same, also) && words.len() + more.len() <= MANY
    }

    /// Whether it may do something about this key, or about several.
    fn concerns(&self, key: &[u8]) -> bool {
        match self {
            Self::Plain(words) => match words.first().map(Vec::as_slice) {
                Some(b"HSET" | b"RPUSH" | b"ZADD" | b"SADD" | b"HSETNX") => {
                    words.get(1).is_some_and(|own| own == key)
                }
                Some(b"PUBLISH") => false,
                _ => true,
            },
            Self::Special(..) => true,
        }
    }
}

impl Transaction {
    pub(crate) fn new(shard: Shard) -> Self {
        Self {
            shard,
            makes_room: false,
            incarnation: None,
            info: String::new(),
            comparisons: Arguments::default(),
            commands: Vec::new(),
        }
    }

    /// Names the stream whose last sequence is returned.
    pub(crate) fn on_stream(&mut self, info: &str) {
        info.clone_into(&mut self.info);
    }

    /// The stream must reach to this sequence. Nothing was asked for before.
    pub(crate) fn expect_end(&mut self, last: Sequence) {
        if !last.is_start() {
            let arguments = words![last.to_string()];
            self.commands.push(Command::Special("-3", arguments));
        }
    }

    /// The field of a hash must have this value; empty: it must not exist.
    pub(crate) fn expect(&mut self, key: &str, field: &str, value: &str) {
        for word in [key, field, value] {
            self.comparisons.push(word);
        }
    }

    /// Adds a command. What it adds to a key is added with an earlier command to the same, if nothing stands between.
    pub(crate) fn command(&mut self, mut words: Vec<Vec<u8>>) {
        if let [_, key, ..] = words.as_slice() {
            let mut earlier = self.commands.iter_mut().rev();
            let last = earlier.find(|command| command.concerns(key));
            if let Some(last) = last.filter(|last| last.takes_more(&words))
                && let Command::Plain(before) = last
            {
                before.extend(words.drain(2..));
                return;
            }
        }
        self.commands.push(Command::Plain(words));
    }

    /// Performs a command for any number of members.
    pub(crate) fn for_each(
        &mut self,
        command: &str,
        key: &str,
        members: impl IntoIterator<Item = impl Into<Vec<u8>>>,
    ) {
        let members: Vec<Vec<u8>> = members.into_iter().map(Into::into).collect();
        for some in members.chunks(MANY) {
            let mut words = words![command, key];
            words.extend(some.iter().cloned());
            self.command(words);
        }
    }

    pub(crate) fn set(&mut self, key: &str, field: &str, value: impl Into<Vec<u8>>) {
        self.command(words!["HSET", key, field, value]);
    }

    /// Appends a batch of chunks to the stream.
    pub(crate) fn append(&mut self, entries: &str, count: usize, kind: &str, batch: String) {
        let arguments = words![entries, count.to_string(), kind, batch];
        self.commands.push(Command::Special("0", arguments));
    }

    /// Notes that a turn has ended with the last sequence of the stream.
    pub(crate) fn note_end(&mut self, key: &str, at: u64, root: &str) {
        let arguments = words![key, at.to_string(), root];
        self.commands.push(Command::Special("-1", arguments));
    }

    /// Notes the end of the stream in a field of a hash, with a name before it.
    pub(crate) fn note_place(&mut self, key: &str, field: &str, name: &str) {
        let arguments = words![key, field, name];
        self.commands.push(Command::Special("-2", arguments));
    }

    pub(crate) fn arguments(self) -> Arguments {
        let mut all = Arguments::default();
        all.push(self.info);
        all.push((self.comparisons.0.len() / 3).to_string());
        all.0.extend(self.comparisons.0);
        for command in self.commands {
            match command {
                Command::Plain(words) => all.command(words),
                Command::Special(number, arguments) => {
                    all.push(number);
                    all.0.extend(arguments);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests;
