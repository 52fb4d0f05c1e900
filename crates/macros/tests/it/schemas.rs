//! Tests of what the model sees: names, descriptions and schemas.

use helix_agents::__private::{schemars, serde};
use helix_agents::{IntoTools, ToolCx, ToolResult, toolset};
use serde_json::{Value, json};

use crate::support::tool;

struct Library {
    books: usize,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "helix_agents::__private::serde")]
#[schemars(crate = "helix_agents::__private::schemars")]
struct Sum {
    /// The numbers to add.
    numbers: Vec<i64>,
}

fn first_page() -> u32 {
    1
}

#[toolset]
impl Library {
    /// Search the catalogue.
    ///
    /// Gives at most ten books:
    ///  - the best match first
    #[tool]
    async fn search(
        &self,
        /// Words to look for.
        ///
        /// All must match.
        query: String,
        cx: &ToolCx,
        author: Option<String>,
        /// From 1.
        #[serde(default = "first_page")]
        #[schemars(range(min = 1))]
        page: u32,
        #[serde(rename = "in")] shelves: Vec<String>,
    ) -> ToolResult<String> {
        Ok(format!(
            "{query} {author:?} {page} {shelves:?} {}",
            cx.call_id()
        ))
    }

    /// Add numbers.
    #[tool(name = "add-up")]
    async fn add(&self, _cx: &ToolCx, #[args] Sum { numbers }: Sum) -> ToolResult<i64> {
        Ok(numbers.iter().sum())
    }

    /// Count the books.
    #[tool]
    pub(crate) async fn r#move(&self) -> ToolResult<usize> {
        Ok(self.count())
    }

    #[doc = include_str!("described.md")]
    #[tool]
    async fn described(&self, r#type: String) -> ToolResult<String> {
        Ok(r#type)
    }

    fn count(&self) -> usize {
        self.books
    }
}

const LIBRARY: Library = Library { books: 7 };

fn schema(name: &str) -> Value {
    tool(LIBRARY, name).spec().input.json().clone()
}

/// proves: AGT-02
#[test]
fn parameters_are_the_schema() {
    assert_eq!(
        schema("search"),
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to look for.\n\nAll must match."},
                "author": {"type": ["string", "null"]},
                "page": {
                    "type": "integer",
                    "format": "uint32",
                    "description": "From 1.",
                    "default": 1,
                    "minimum": 1,
                },
                "in": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["query", "in"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn a_tool_without_parameters_takes_an_empty_object() {
    let expected = json!({"type": "object", "additionalProperties": false});
    assert_eq!(schema("move"), expected);
}

#[test]
fn args_are_the_whole_input() {
    assert_eq!(
        schema("add-up"),
        json!({
            "type": "object",
            "properties": {
                "numbers": {
                    "type": "array",
                    "items": {"type": "integer", "format": "int64"},
                    "description": "The numbers to add.",
                },
            },
            "required": ["numbers"],
        })
    );
}

#[test]
fn a_raw_name_is_shown_without_its_mark() {
    assert_eq!(schema("described")["required"], json!(["type"]));
}

/// proves: AGT-02
#[test]
fn doc_comments_are_the_descriptions() {
    let tools = LIBRARY.into_tools().unwrap();
    let described: Vec<_> = tools
        .iter()
        .map(|tool| (tool.name(), tool.spec().description.as_str()))
        .collect();
    assert_eq!(
        described,
        [
            (
                "search",
                "Search the catalogue.\n\nGives at most ten books:\n - the best match first"
            ),
            ("add-up", "Add numbers."),
            ("move", "Count the books."),
            ("described", "From a file.\n\nTwo paragraphs."),
        ]
    );
}
