//! The keys of persistent agents.

use super::{Key, Shape, Table};

pub(super) static PERSISTENT_AGENT: Table = Table {
    title: "[[agents.NAME.persistent_agents]]",
    about: "An agent that this one starts under a name. It keeps its session, so that further messages find what it \
            knows.",
    keys: &[
        Key::new("agent", Shape::Text, "The name of an agent in this file.").required(),
        Key::new(
            "mode",
            Shape::Choice(&["blocking", "non-blocking"]),
            "`blocking`: the calls that start it or send it a message wait for its output. `non-blocking`: it works \
             beside this agent, which is told when it is done.",
        )
        .required(),
        Key::new(
            "description",
            Shape::Text,
            "How it is described to the model of this agent. By default its own description.",
        ),
    ],
    rules: &[],
};
