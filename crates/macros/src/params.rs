//! The parameters of a tool: which are its input, and how the method is called.

use syn::punctuated::Punctuated;
use syn::{Attribute, FnArg, Ident, Pat, PatType, Token, Type};

use crate::errors::Errors;
use crate::input::{Field, Input};
use crate::param_type::{check_owned, is_context};

/// The parameters of a method after `&self`.
pub(crate) struct Params {
    /// The input that the model gives.
    pub(crate) input: Input,
    /// The arguments of the method call, in order.
    pub(crate) passed: Vec<Passed>,
}

/// One argument of the method call.
pub(crate) enum Passed {
    /// The context of the call.
    Cx,
    /// The whole input, with `#[args]`.
    Input,
    /// A field of the input.
    Field(Ident),
}

impl Params {
    /// Parses the parameters, and removes the attributes that only this macro knows.
    pub(crate) fn take(inputs: &mut Punctuated<FnArg, Token![,]>, errors: &mut Errors) -> Self {
        let mut fields = Vec::new();
        let mut passed = Vec::new();
        let mut whole = None;
        for input in inputs {
            let FnArg::Typed(param) = input else { continue };
            let (args, attrs) = take_attrs(param);
            if is_context(&param.ty, errors) {
                passed.push(Passed::Cx);
                continue;
            }
            check_owned(&param.ty, errors);
            if let Some(args) = args {
                whole.get_or_insert((args, param.ty.clone()));
                passed.push(Passed::Input);
            } else if let Some(ident) = name_of(param, errors) {
                let ty = Type::clone(&param.ty);
                passed.push(Passed::Field(ident.clone()));
                fields.push(Field { attrs, ident, ty });
            }
        }
        let Some((args, ty)) = whole else {
            let input = Input::Fields(fields);
            return Self { input, passed };
        };
        let given = passed.iter().filter(|one| !matches!(one, Passed::Cx));
        if given.count() > 1 {
            let message = "`#[args]` is the whole input; move the other parameters into its type";
            errors.at(args, message);
        }
        let input = Input::Whole(ty);
        Self { input, passed }
    }
}

/// Removes `#[args]` and the attributes of a field; attributes of the parameter itself stay.
fn take_attrs(param: &mut PatType) -> (Option<Attribute>, Vec<Attribute>) {
    let about_param = [
        "allow", "expect", "warn", "deny", "forbid", "cfg", "cfg_attr",
    ];
    let (stay, mut take): (Vec<_>, Vec<_>) = std::mem::take(&mut param.attrs)
        .into_iter()
        .partition(|attr| about_param.iter().any(|name| attr.path().is_ident(name)));
    param.attrs = stay;
    let args = take
        .iter()
        .position(|attr| attr.path().is_ident("args"))
        .map(|place| take.remove(place));
    (args, take)
}

/// Returns the name that the model uses for a parameter.
fn name_of(param: &PatType, errors: &mut Errors) -> Option<Ident> {
    let is_cfg = |attr: &&Attribute| {
        ["cfg", "cfg_attr"]
            .iter()
            .any(|name| attr.path().is_ident(name))
    };
    if let Some(cfg) = param.attrs.iter().find(is_cfg) {
        let message = "a tool's parameter cannot be conditional; put the `cfg` on the method";
        errors.at(cfg, message);
    }
    match &*param.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Some(pat.ident.clone()),
        other => {
            errors.at(other, "give the parameter a plain name: the model uses it");
            None
        }
    }
}
