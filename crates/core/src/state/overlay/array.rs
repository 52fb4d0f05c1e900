//! An array with changes on top, as a piece table.

use std::{collections::BTreeMap, mem, ops::Range};

use serde_json::Value;

use super::{node::Node, view::View};

/// The elements of an array as runs of base elements and runs of new ones.
///
/// Pushing is constant, and reading or changing an element costs as much as there are runs: one
/// more for each place where something was inserted or removed, however long the base is.
///
/// Runs of base elements are ascending and never overlap, since elements come back only where
/// they were.
#[derive(Debug)]
pub(in crate::state) struct ArrayNode {
    pieces: Vec<Piece>,
    /// What was changed inside base elements, by their index in the base.
    edits: BTreeMap<usize, Node>,
    len: usize,
}

/// A run of elements. No piece is empty, and no two neighbours could be one.
#[derive(Debug)]
enum Piece {
    Base(Range<usize>),
    Own(Vec<Node>),
}

/// An element that was taken out of an array and can be put back.
#[derive(Debug)]
pub(super) enum Element {
    /// The element of the base with this index, and what was changed in it.
    Base(usize, Option<Node>),
    /// A new element.
    Own(Node),
}

/// A run of elements, for those who only want to know which they are.
#[derive(Debug)]
pub(super) enum Run {
    /// These elements of the base, with what was changed inside of them.
    Base(Range<usize>),
    /// So many new elements.
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

/// Where an element is.
enum Place<'a> {
    Base(usize),
    Own(&'a Node),
}

/// Where an element to be changed is.
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

    /// Cuts the piece in two and returns the second part.
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

    /// Makes `next` part of this piece, or gives it back when they do not fit together.
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
    /// The unchanged array over a base of `len` elements.
    pub(super) fn over(len: usize) -> Self {
        Self::of(Piece::Base(0..len))
    }

    /// A new array.
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

    /// Its elements, in their order.
    pub(super) fn runs(&self) -> Vec<Run> {
        let runs = self.pieces.iter().map(|piece| match piece {
            Piece::Base(range) => Run::Base(range.clone()),
            Piece::Own(nodes) => Run::Own(nodes.len()),
        });
        runs.collect()
    }

    /// Whether something was changed inside of these elements of the base.
    pub(super) fn is_edited(&self, range: &Range<usize>) -> bool {
        self.edits.range(range.clone()).next().is_some()
    }

    /// The element at `index`.
    pub(super) fn get<'a>(&'a self, index: usize, base: &'a [Value]) -> Option<View<'a>> {
        match self.find(index)? {
            Place::Own(node) => View::of(node, None),
            Place::Base(at) => self.view_base(at, base),
        }
    }

    /// The piece that has the element at `index`, and where in the piece it is.
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

    /// The element at `index` to be changed, with what the base has there, and whether this made
    /// its entry.
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

    /// Changes the entry of the element at `index` and returns the former one. `None` stands for
    /// an element that reads as in the base.
    pub(super) fn set(&mut self, index: usize, entry: Option<Node>) -> Option<Node> {
        match (self.find_mut(index)?, entry) {
            (PlaceMut::Base(at, edits), Some(node)) => edits.insert(at, node),
            (PlaceMut::Base(at, edits), None) => edits.remove(&at),
            (PlaceMut::Own(node), entry) => Some(mem::replace(node, entry.unwrap_or(Node::Base))),
        }
    }

    /// Puts an element before the one at `index`, or at the end.
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

    /// Takes out the element at `index`.
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

    /// Makes a piece start at the element `index` and returns which; an index behind the last
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

    /// Makes the piece `at` and the one before it one, if they fit together.
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

    /// Whether the pieces are as few as they can be.
    #[cfg(test)]
    pub(super) fn is_tidy(&self) -> bool {
        let full = self.pieces.iter().all(|piece| piece.len() > 0);
        full && self.pieces.windows(2).all(|pair| match pair {
            [Piece::Base(range), Piece::Base(next)] => range.end < next.start,
            [Piece::Own(_), Piece::Own(_)] => false,
            _ => true,
        })
    }

    /// The whole array.
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

    /// Brings the changes into the base array itself. What comes before the first inserted or
    /// removed element stays where it is, so appending costs only what is appended.
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
