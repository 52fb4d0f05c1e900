//! The type of a tool's input.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, ItemImpl, Type, parse_quote};

use crate::code::{code, private};

/// What the model gives.
pub(crate) enum Input {
    /// The parameters, which become the fields of a struct that is generated.
    Fields(Vec<Field>),
    /// A type of the user's.
    Whole(Box<Type>),
}

/// A parameter that is a field of the input.
pub(crate) struct Field {
    /// Its description, and what serde and schemars shall know.
    pub(crate) attrs: Vec<Attribute>,
    /// Its name.
    pub(crate) ident: Ident,
    /// Its type.
    pub(crate) ty: Type,
}

impl Input {
    /// The input's type, where the tool is built.
    pub(crate) fn ty(&self, block: &ItemImpl) -> Type {
        match self {
            Self::Fields(_) => {
                let (_, generics, _) = block.generics.split_for_impl();
                parse_quote!(__HelixInput #generics)
            }
            Self::Whole(ty) => Type::clone(ty),
        }
    }

    /// A pattern that takes an input apart into the variables that the call is made with.
    pub(crate) fn pattern(&self, block: &ItemImpl) -> TokenStream {
        match self {
            Self::Fields(fields) => {
                let names = fields.iter().map(|field| &field.ident);
                let rest = is_generic(block).then(|| quote!(..));
                quote!(__HelixInput { #(#names,)* #rest })
            }
            Self::Whole(_) => code!(input),
        }
    }

    /// The struct that has the parameters as its fields.
    ///
    /// In a generic toolset it has the same parameters, because a field's type may use them. The
    /// bounds are the toolset's own: if they are too weak, the error is about the user's types.
    pub(crate) fn items(&self, block: &ItemImpl) -> TokenStream {
        let Self::Fields(fields) = self else {
            return TokenStream::new();
        };
        let private = private();
        let fields = fields
            .iter()
            .map(|Field { attrs, ident, ty }| quote!(#(#attrs)* #ident: #ty));
        let generics = &block.generics;
        let bounds = &generics.where_clause;
        let self_ty = &block.self_ty;
        let no_bounds =
            is_generic(block).then(|| quote!(#[serde(bound = "")] #[schemars(bound = "")]));
        let marker = is_generic(block).then(
            || quote!(#[serde(skip)] __helix_toolset: #private::PhantomData<fn() -> #self_ty>,),
        );
        quote! {
            #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
            #[serde(crate = "::helix_agents::__private::serde", deny_unknown_fields)]
            #[schemars(crate = "::helix_agents::__private::schemars")]
            #no_bounds
            #[allow(dead_code, reason = "nothing here reads what a client will be given")]
            struct __HelixInput #generics #bounds {
                #(#fields,)*
                #marker
            }
        }
    }
}

fn is_generic(block: &ItemImpl) -> bool {
    !block.generics.params.is_empty()
}
