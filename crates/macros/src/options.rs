//! The options of `#[tool(..)]`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Expr, ExprLit, ExprPath, Lit, LitStr, Meta, Token};

use crate::duration;
use crate::errors::Errors;
use crate::rule::Rule;
use crate::suggest::nearest;

/// The kind of value that an option takes.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Nothing,
    Name,
    Rule,
    Method,
    Time,
    OnUnknown,
}

/// Every option: its name, the kind of its value, and an example.
const OPTIONS: [(&str, Takes, &str); 12] = [
    ("approval", Takes::Nothing, "approval"),
    ("approval_if", Takes::Rule, "approval_if = |a| .."),
    ("client", Takes::Nothing, "client"),
    ("finish_with", Takes::Nothing, "finish_with"),
    ("idempotent", Takes::Nothing, "idempotent"),
    ("read_only", Takes::Nothing, "read_only"),
    ("strict", Takes::Nothing, "strict"),
    ("deadline", Takes::Time, "deadline = \"10m\""),
    ("timeout", Takes::Time, "timeout = \"30s\""),
    ("on_unknown", Takes::OnUnknown, "on_unknown = \"pause\""),
    ("reconcile", Takes::Method, "reconcile = Self::method"),
    ("name", Takes::Name, "name = \"..\""),
];

/// The options of a tool, in the order in which they were written.
#[derive(Default)]
pub(crate) struct Options(Vec<Given>);

/// An option that was given.
pub(crate) struct Given {
    /// The name of the option, from `OPTIONS`.
    pub(crate) key: &'static str,
    /// The name token in the source.
    pub(crate) token: Ident,
    /// The value of the option.
    pub(crate) value: Value,
}

/// The value of an option.
pub(crate) enum Value {
    /// The option takes no value.
    Nothing,
    /// The name of the tool.
    Name(LitStr),
    /// The rule of `approval_if`.
    Rule(Rule),
    /// The path of a method of the toolset.
    Method(ExprPath),
    /// An expression of type `Duration`.
    Time(TokenStream),
    /// An expression of type `OnUnknown`.
    OnUnknown(TokenStream),
}

impl Options {
    /// Parses the options of a `#[tool]`, leaving out invalid ones.
    pub(crate) fn read(attr: &Attribute, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        match &attr.meta {
            Meta::Path(_) => {}
            Meta::NameValue(_) => {
                errors.at(attr, "write the options in parentheses: `#[tool(..)]`");
            }
            Meta::List(list) => {
                let read = |input: ParseStream<'_>| options.read_all(input, errors);
                if let Err(error) = read.parse2(list.tokens.clone()) {
                    errors.push(error);
                }
            }
        }
        options
    }

    /// Reports invalid options and continues; stops only where the next one cannot be found.
    fn read_all(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<()> {
        while !input.is_empty() {
            let token = input.call(Ident::parse_any)?;
            let value = match input.parse::<Option<Token![=]>>()? {
                Some(_) if !input.is_empty() => Some(bare(input.parse()?)),
                _ => None,
            };
            match self.read_one(&token, value) {
                Ok(given) => self.0.push(given),
                Err(error) => errors.push(error),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    fn read_one(&self, token: &Ident, value: Option<Expr>) -> syn::Result<Given> {
        let Some((key, takes, example)) = OPTIONS.into_iter().find(|(key, ..)| token == key) else {
            return Err(syn::Error::new(token.span(), unknown(token)));
        };
        if self.get(key).is_some() {
            let message = format!("`{key}` is given twice; keep one");
            return Err(syn::Error::new(token.span(), message));
        }
        let value = match (takes, value) {
            (Takes::Nothing, None) => Value::Nothing,
            (Takes::Nothing, Some(value)) => {
                let message = format!("`{key}` takes no value; write it alone");
                return Err(syn::Error::new_spanned(value, message));
            }
            (_, None) => {
                let message = format!("`{key}` needs a value; write `{example}`");
                return Err(syn::Error::new(token.span(), message));
            }
            (Takes::Name, Some(value)) => Value::Name(text(value, key, example)?),
            (Takes::Rule, Some(value)) => Value::Rule(Rule::read(value)?),
            (Takes::Method, Some(Expr::Path(path))) => Value::Method(path),
            (Takes::Method, Some(value)) => return Err(misfit(&value, key, example)),
            (Takes::Time, Some(value)) => Value::Time(time(value, key, example)?),
            (Takes::OnUnknown, Some(value)) => Value::OnUnknown(on_unknown(value, key, example)?),
        };
        let token = token.clone();
        Ok(Given { key, token, value })
    }

    /// Returns the option of this name, if it was given.
    pub(crate) fn get(&self, key: &str) -> Option<&Given> {
        self.0.iter().find(|given| given.key == key)
    }

    /// Returns the value of `name`, if it was given.
    pub(crate) fn name(&self) -> Option<&LitStr> {
        self.0.iter().find_map(|given| match &given.value {
            Value::Name(name) => Some(name),
            _ => None,
        })
    }

    /// Returns all options that were given.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Given> {
        self.0.iter()
    }
}

fn unknown(token: &Ident) -> String {
    let token = token.to_string();
    if let Some(meant) = nearest(&token, OPTIONS.map(|(key, ..)| key)) {
        return format!("unknown option `{token}`; did you mean `{meant}`?");
    }
    let all = OPTIONS.map(|(key, ..)| format!("`{key}`")).join(", ");
    format!("unknown option `{token}`; the options are {all}")
}

/// Returns an expression without the invisible group of `macro_rules`.
fn bare(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => bare(*group.expr),
        other => other,
    }
}

fn misfit(value: &Expr, key: &str, example: &str) -> syn::Error {
    syn::Error::new_spanned(
        value,
        format!("invalid value for `{key}`; write `{example}`"),
    )
}

fn text(value: Expr, key: &str, example: &str) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text),
        other => Err(misfit(&other, key, example)),
    }
}

fn time(value: Expr, key: &str, example: &str) -> syn::Result<TokenStream> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => {
            let millis = duration::millis(&text)?;
            Ok(quote!(::helix_agents::__private::Duration::from_millis(#millis)))
        }
        // A number without a unit would otherwise be a type error in generated code.
        Expr::Lit(_) => Err(misfit(&value, key, example)),
        expression => Ok(quote!(#expression)),
    }
}

fn on_unknown(value: Expr, key: &str, example: &str) -> syn::Result<TokenStream> {
    let text = text(value, key, example)?;
    match text.value().as_str() {
        "pause" => Ok(quote!(::helix_agents::__private::OnUnknown::Pause)),
        "tell_model" => Ok(quote!(::helix_agents::__private::OnUnknown::TellModel)),
        other => {
            let message = format!("{other:?} is not a choice; use \"pause\" or \"tell_model\"");
            Err(syn::Error::new(text.span(), message))
        }
    }
}
