//! A method that is a tool.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{
    Attribute, Ident, ImplItemFn, LitStr, ReceiverKind, ReturnType, Safety, Signature, Type,
};

use crate::description::description;
use crate::errors::Errors;
use crate::exclusive;
use crate::options::Options;
use crate::params::Params;

/// A tool as parsed from its method.
pub(crate) struct ToolMethod {
    /// The name of the method.
    pub(crate) ident: Ident,
    /// The name of the tool, with the span where it was chosen.
    pub(crate) name: LitStr,
    /// The description for the model, as an expression.
    pub(crate) description: TokenStream,
    /// The `cfg` attributes of the method.
    pub(crate) cfgs: Vec<Attribute>,
    /// The options of the `#[tool]`.
    pub(crate) options: Options,
    /// The parameters of the method.
    pub(crate) params: Params,
    /// The return type of the method.
    pub(crate) output: Type,
}

impl ToolMethod {
    /// Parses a method, and removes from it the attributes that the compiler does not know.
    ///
    /// `marks` are its `#[tool]` attributes. Returns `None` after an error that leaves no tool.
    pub(crate) fn take(
        function: &mut ImplItemFn,
        marks: &[Attribute],
        has_body: bool,
        errors: &mut Errors,
    ) -> Option<Self> {
        let mut wrong_options = Errors::default();
        let (mark, more) = marks.split_first()?;
        let options = Options::read(mark, &mut wrong_options);
        let client = options.get("client").is_some();
        for mark in more {
            wrong_options.at(mark, "`#[tool]` is given twice; write all options in one");
        }
        let mut wrong_signature = Errors::default();
        let sig = &mut function.sig;
        let params = Params::take(&mut sig.inputs, &mut wrong_signature);
        let output = check_signature(sig, &mut wrong_signature);

        let description = description(&function.attrs).unwrap_or_else(|| {
            let message = "describe the tool in a doc comment: the model reads it";
            errors.at(&sig.ident, message);
            quote!("")
        });
        let name = options
            .name()
            .cloned()
            .unwrap_or_else(|| LitStr::new(&sig.ident.unraw().to_string(), sig.ident.span()));
        // A misspelt option may be the one that these rules require.
        if wrong_options.is_empty() {
            exclusive::check(&name.value(), &options, errors);
            check_body(function, client, has_body, errors);
        }
        let usable = wrong_signature.is_empty();
        errors.append(wrong_options);
        errors.append(wrong_signature);
        usable.then(|| Self {
            ident: function.sig.ident.clone(),
            name,
            description,
            cfgs: cfgs(&function.attrs),
            options,
            params,
            output: output.unwrap_or_else(|| syn::parse_quote!(())),
        })
    }

    /// Whether a client runs the tool, so that there is no method to call.
    pub(crate) fn is_client(&self) -> bool {
        self.options.get("client").is_some()
    }
}

fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("cfg"))
        .cloned()
        .collect()
}

/// Returns the return type of the method, if its signature fits a tool.
fn check_signature(sig: &Signature, errors: &mut Errors) -> Option<Type> {
    if sig.asyncness.is_none() {
        errors.at(sig.fn_token, "a tool is an `async fn`");
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.at(
            token,
            "a tool cannot be `unsafe`: the model decides when it is called",
        );
    }
    if !sig.generics.params.is_empty() {
        errors.at(
            &sig.generics,
            "a tool cannot be generic: the model needs one schema",
        );
    }
    let by_reference = "a tool takes `&self`: all calls share one toolset";
    match sig.receiver() {
        None => errors.at(&sig.ident, by_reference),
        Some(receiver) => {
            if !matches!(receiver.kind, ReceiverKind::Reference(_, _, None)) {
                errors.at(receiver, by_reference);
            }
        }
    }
    match &sig.output {
        ReturnType::Type(_, ty) if is_bare(ty) => {
            let written = quote::quote!(#ty).to_string().replace(' ', "");
            let message =
                format!("a tool returns a `ToolResult`; write `-> ToolResult<{written}>`");
            errors.at(ty, message);
            None
        }
        ReturnType::Type(_, ty) => Some((**ty).clone()),
        ReturnType::Default => {
            errors.at(
                &sig.ident,
                "a tool returns a `ToolResult`; write `-> ToolResult<()>`",
            );
            None
        }
    }
}

/// Whether a type is certainly not a result. An alias may be one whatever its name, so most names are
/// left to the compiler.
fn is_bare(ty: &Type) -> bool {
    const BARE: [&str; 20] = [
        "String", "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8",
        "u16", "u32", "u64", "u128", "usize", "Option", "Value", "Vec",
    ];
    match ty {
        Type::Array(_) | Type::Reference(_) | Type::Slice(_) | Type::Tuple(_) => true,
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|last| BARE.iter().any(|bare| last.ident == bare))
        }
        _ => false,
    }
}

fn check_body(function: &ImplItemFn, client: bool, has_body: bool, errors: &mut Errors) {
    if client && has_body {
        errors.at(
            &function.block,
            "a client tool has no body; end the line with `;`",
        );
    } else if !client && !has_body {
        let message = "a tool needs a body, unless it is `#[tool(client)]`";
        errors.at(&function.sig.ident, message);
    }
}
