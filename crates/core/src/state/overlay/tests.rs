//! Compares the piece table with a plain vector.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    array::{ArrayNode, Element},
    node::Node,
};

#[derive(Debug, Clone)]
enum Step {
    Insert(usize),
    Remove(usize),
    Set(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<usize>().prop_map(Step::Insert),
        any::<usize>().prop_map(Step::Remove),
        any::<usize>().prop_map(Step::Set),
    ]
}

proptest! {
    /// An array reads as a vector would after the same changes, through the overlay or
    /// written into the base.
    ///
    /// proves: STT-03
    #[test]
    fn an_array_of_pieces_reads_as_a_vector(len in 0_usize..8, steps in proptest::collection::vec(step(), 0..40)) {
        let base: Vec<Value> = (0..len).map(|n| json!({ "base": n })).collect();
        let mut model = base.clone();
        let mut array = ArrayNode::over(len);
        for (n, step) in steps.into_iter().enumerate() {
            let new = json!({ "new": n });
            match step {
                Step::Insert(at) => {
                    let at = at % (model.len() + 1);
                    array.insert(at, Element::Own(Node::Value(new.clone())));
                    model.insert(at, new);
                }
                Step::Remove(at) if !model.is_empty() => {
                    let at = at % model.len();
                    let element = array.remove(at).unwrap();
                    // Putting it back where it was changes nothing.
                    array.insert(at, element);
                    prop_assert_eq!(&array.to_values(&base), &model);
                    array.remove(at).unwrap();
                    model.remove(at);
                }
                Step::Set(at) if !model.is_empty() => {
                    let at = at % model.len();
                    array.set(at, Some(Node::Value(new.clone())));
                    model[at] = new;
                }
                Step::Remove(_) | Step::Set(_) => {
                    prop_assert!(array.remove(0).is_none());
                }
            }
            prop_assert_eq!(&array.to_values(&base), &model);
            prop_assert_eq!(array.len(), model.len());
            prop_assert!(array.is_tidy(), "{:?}", array);
            for (at, value) in model.iter().enumerate() {
                let found = array.get(at, &base).map(super::View::to_value);
                prop_assert_eq!(found.as_ref(), Some(value));
            }
            prop_assert!(array.get(model.len(), &base).is_none());
        }
        let mut written = base;
        array.write_to(&mut written);
        prop_assert_eq!(written, model);
    }
}
