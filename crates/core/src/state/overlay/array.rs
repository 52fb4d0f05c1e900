//! An array with changes on top, as a piece table.

use std::{collections::BTreeMap, mem, ops::Range};

use serde_json::Value;

use super::{node::Node, view::View};

/// The elements of an array as runs of base elements and runs of new ones.
///
/// Pushing is constant, and reading or changing an element costs as much as there are runs: one
/// more for each place where elements were inserted or removed, however long the base is.
///
/// Runs of base elements are ascending and never overlap, since a removed element is only ever put
/// back where it was.
#[derive(Debug)]
pub(in crate::state) struct ArrayNode {
    pieces: Vec<Piece>,
    /// The changes inside base elements, by their index in the base.
    edits: BTreeMap<usize, Node>,
    len: usize,
}

/// A run of elements. No piece is empty, and no two neighbours could be joined.
#[derive(Debug)]
enum Piece {
    Base(Range<usize>),
    Own(Vec<Node>),
}

/// An element that was removed from an array and can be put back.
#[derive(Debug)]
pub(super) enum Element {
    /// The base element with this index, and the changes inside it.
    Base(usize, Option<Node>),
    /// A new element that is not in the base.
    Own(Node),
}

/// A run of elements, without their contents.
#[derive(Debug)]
pub(super) enum Run {
    /// These base elements, with the changes inside them.
    Base(Range<usize>),
    /// This many new elements.
    Own(usize),
}

impl Run {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Base(range) => range.len(),
            Self::Own(len) => *len,
        }
    }
}

/// The location of an element.
enum Place<'a> {
    Base(usize),
    Own(&'a Node),
}

/// The location of an element to be changed.
enum PlaceMut<'a> {
    Base(usize, &'a mut BTreeMap<usize, Node>),
    Own(&'a mut Node),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Base(range) => range.len(),
            Self::Own(nodes) => nodes.len(),
        }
    }

    /// Splits the piece and returns the second part.
    fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Base(range) => {
                let middle = range.start + at;
                let tail = middle..range.end;
                range.end = middle;
                Self::Base(tail)
            }
            Self::Own(nodes) => Self::Own(nodes.split_off(at)),
        }
    }

    /// Joins `next` to this piece, or returns it if they do not fit together.
    fn join(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Base(range), Self::Base(next)) if range.end == next.start => {
                range.end = next.end;
            }
            (Self::Own(nodes), Self::Own(mut next)) => nodes.append(&mut next),
            (_, next) => return Some(next),
        }
        None
    }
}

impl ArrayNode {
    /// Creates the unchanged array over a base of `len` elements.
    pub(super) fn over(len: usize) -> Self {
        Self::of(Piece::Base(0..len))
    }

    /// Creates an array that does not refer to a base.
    pub(super) fn owned(values: Vec<Value>) -> Self {
        Self::of(Piece::Own(values.into_iter().map(Node::Value).collect()))
    }

    fn of(piece: Piece) -> Self {
        let len = piece.len();
        Self {
            pieces: if len == 0 { Vec::new() } else { vec![piece] },
            edits: BTreeMap::new(),
            len,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns its elements as runs, in order.
    pub(super) fn runs(&self) -> Vec<Run> {
        let runs = self.pieces.iter().map(|piece| match piece {
            Piece::Base(range) => Run::Base(range.clone()),
            Piece::Own(nodes) => Run::Own(nodes.len()),
        });
        runs.collect()
    }

    /// Whether something was changed inside these base elements.
    pub(super) fn is_edited(&self, range: &Range<usize>) -> bool {
        self.edits.range(range.clone()).next().is_some()
    }

    /// Returns the element at `index`.
    pub(super) fn get<'a>(&'a self, index: usize, base: &'a [Value]) -> Option<View<'a>> {
        match self.find(index)? {
            Place::Own(node) => View::of(node, None),
            Place::Base(at) => self.view_base(at, base),
        }
    }

    /// Returns the piece with the element at `index`, and the offset in that piece.
    fn locate(&self, mut index: usize) -> Option<(usize, usize)> {
        for (at, piece) in self.pieces.iter().enumerate() {
            if index < piece.len() {
                return Some((at, index));
            }
            index -= piece.len();
        }
        None
    }

    fn find(&self, index: usize) -> Option<Place<'_>> {
        let (piece, offset) = self.locate(index)?;
        match self.pieces.get(piece)? {
            Piece::Base(range) => Some(Place::Base(range.start + offset)),
            Piece::Own(nodes) => nodes.get(offset).map(Place::Own),
        }
    }

    fn find_mut(&mut self, index: usize) -> Option<PlaceMut<'_>> {
        let (piece, offset) = self.locate(index)?;
        match self.pieces.get_mut(piece)? {
            Piece::Base(range) => Some(PlaceMut::Base(range.start + offset, &mut self.edits)),
            Piece::Own(nodes) => nodes.get_mut(offset).map(PlaceMut::Own),
        }
    }

    fn view_base<'a>(&'a self, at: usize, base: &'a [Value]) -> Option<View<'a>> {
        match self.edits.get(&at) {
            Some(node) => View::of(node, base.get(at)),
            None => base.get(at).map(View::Plain),
        }
    }

    /// Returns the element at `index` to be changed, its value in the base, and whether this
    /// call created its entry.
    pub(super) fn child_mut<'a>(
        &'a mut self,
        index: usize,
        base: &'a [Value],
    ) -> Option<(&'a mut Node, Option<&'a Value>, bool)> {
        match self.find_mut(index)? {
            PlaceMut::Own(node) => Some((node, None, false)),
            PlaceMut::Base(at, edits) => {
                let fresh = !edits.contains_key(&at);
                Some((edits.entry(at).or_insert(Node::Base), base.get(at), fresh))
            }
        }
    }

    /// Changes the entry of the element at `index` and returns the former one. `None` means an
    /// element that reads as in the base.
    pub(super) fn set(&mut self, index: usize, entry: Option<Node>) -> Option<Node> {
        match (self.find_mut(index)?, entry) {
            (PlaceMut::Base(at, edits), Some(node)) => edits.insert(at, node),
            (PlaceMut::Base(at, edits), None) => edits.remove(&at),
            (PlaceMut::Own(node), entry) => Some(mem::replace(node, entry.unwrap_or(Node::Base))),
        }
    }

    /// Inserts an element before the one at `index`, or at the end.
    pub(super) fn insert(&mut self, index: usize, element: Element) {
        let piece = match element {
            Element::Own(node) => Piece::Own(vec![node]),
            Element::Base(at, edit) => {
                self.edits.extend(edit.map(|node| (at, node)));
                Piece::Base(at..at + 1)
            }
        };
        let at = self.cut(index);
        self.pieces.insert(at, piece);
        self.join(at + 1);
        self.join(at);
        self.len += 1;
    }

    /// Removes the element at `index`.
    pub(super) fn remove(&mut self, index: usize) -> Option<Element> {
        if index >= self.len {
            return None;
        }
        let at = self.cut(index);
        self.cut(index + 1);
        let piece = self.pieces.remove(at);
        self.join(at);
        self.len -= 1;
        match piece {
            Piece::Base(range) => Some(Element::Base(range.start, self.edits.remove(&range.start))),
            Piece::Own(mut nodes) => nodes.pop().map(Element::Own),
        }
    }

    /// Makes a piece start at the element `index` and returns its position; an index after the last
    /// element gives the number of pieces.
    fn cut(&mut self, index: usize) -> usize {
        let Some((at, offset)) = self.locate(index) else {
            return self.pieces.len();
        };
        if offset == 0 {
            return at;
        }
        let tail = self.pieces.get_mut(at).map(|piece| piece.split_off(offset));
        self.pieces.splice(at + 1..at + 1, tail);
        at + 1
    }

    /// Joins the piece `at` with the one before it, if they fit together.
    fn join(&mut self, at: usize) {
        if at == 0 || at >= self.pieces.len() {
            return;
        }
        let next = self.pieces.remove(at);
        let rest = match self.pieces.get_mut(at - 1) {
            Some(previous) => previous.join(next),
            None => Some(next),
        };
        if let Some(next) = rest {
            self.pieces.insert(at, next);
        }
    }

    /// Whether the number of pieces is minimal.
    #[cfg(test)]
    pub(super) fn is_tidy(&self) -> bool {
        let full = self.pieces.iter().all(|piece| piece.len() > 0);
        full && self.pieces.windows(2).all(|pair| match pair {
            [Piece::Base(range), Piece::Base(next)] => range.end < next.start,
            [Piece::Own(_), Piece::Own(_)] => false,
            _ => true,
        })
    }

    /// Returns the whole array.
    pub(super) fn to_values(&self, base: &[Value]) -> Vec<Value> {
        let mut values = Vec::with_capacity(self.len);
        for piece in &self.pieces {
            match piece {
                Piece::Base(range) => {
                    let views = range.clone().filter_map(|at| self.view_base(at, base));
                    values.extend(views.map(View::to_value));
                }
                Piece::Own(nodes) => {
                    let views = nodes.iter().filter_map(|node| View::of(node, None));
                    values.extend(views.map(View::to_value));
                }
            }
        }
        values
    }

    /// Applies the changes to the base array itself. Elements before the first insertion or removal
    /// stay where they are, so appending costs only what is appended.
    pub(super) fn write_to(mut self, base: &mut Vec<Value>) {
        for (at, node) in mem::take(&mut self.edits) {
            if let Some(value) = base.get_mut(at) {
                node.write_to(value);
            }
        }
        let kept = match self.pieces.first() {
            Some(Piece::Base(range)) if range.start == 0 => range.end,
            _ => 0,
        };
        let mut rest = base.split_off(kept.min(base.len())).into_iter();
        let mut passed = kept;
        for piece in self.pieces {
            match piece {
                Piece::Base(range) if range.end <= passed => {}
                Piece::Base(range) => {
                    base.extend(rest.by_ref().skip(range.start - passed).take(range.len()));
                    passed = range.end;
                }
                Piece::Own(nodes) => base.extend(nodes.into_iter().map(Node::into_value)),
            }
        }
    }
}
