//! Generates the code that builds one tool with `Tool::typed`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{ExprPath, Ident, ItemImpl, Type};

use crate::code::{at, code, private};
use crate::method::ToolMethod;
use crate::options::{Given, Value};
use crate::params::Passed;

/// A tool and the parts of its code that are used more than once.
pub(crate) struct Builder<'a> {
    block: &'a ItemImpl,
    tool: &'a ToolMethod,
    /// The type of the input.
    input: Type,
    /// The pattern that destructures an input into the arguments of the method.
    pattern: TokenStream,
    /// The context argument, empty if the method does not take it.
    cx: TokenStream,
    private: TokenStream,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(block: &'a ItemImpl, tool: &'a ToolMethod) -> Self {
        let params = &tool.params;
        let wanted = params.passed.iter().any(|one| matches!(one, Passed::Cx));
        Self {
            block,
            tool,
            input: params.input.ty(block),
            pattern: params.input.pattern(block),
            cx: if wanted { code!(cx) } else { code!(_) },
            private: private(),
        }
    }

    /// Returns a block that builds the tool. The items that it needs are inside, where no other
    /// code sees them; `this` is the toolset.
    pub(crate) fn write(&self) -> TokenStream {
        let items = self.tool.params.input.items(self.block);
        let rules = self
            .tool
            .options
            .iter()
            .filter_map(|given| match &given.value {
                Value::Rule(rule) => Some(rule.items(self.block, &self.input)),
                _ => None,
            });
        let tool = if self.tool.is_client() {
            self.client()
        } else {
            self.server()
        };
        let options = self.tool.options.iter().map(|given| self.option(given));
        code! {
            {
                #items
                #(#rules)*
                #tool #(#options)* .build()?
            }
        }
    }

    fn server(&self) -> TokenStream {
        let Self {
            input, pattern, cx, ..
        } = self;
        let ToolMethod {
            ident,
            name,
            description,
            output,
            ..
        } = self.tool;
        let call = self.call(at(ident), &quote!(Self::#ident));
        let run = self.sharing(&quote!(#pattern: #input), cx, &call);
        // A type error of the output is shown at the method's return type.
        quote_spanned! {at(output)=>
            ::helix_agents::__private::Tool::typed(#name, #description, #run)
        }
    }

    fn client(&self) -> TokenStream {
        let Self { private, input, .. } = self;
        let ToolMethod {
            name,
            description,
            output,
            ..
        } = self.tool;
        code! {
            {
                // No generated code uses the output, but its type must exist.
                let _ = #private::PhantomData::<#output>;
                #private::Tool::client::<#input>(#name, #description)
            }
        }
    }

    /// Returns the builder call that sets an option.
    fn option(&self, given: &Given) -> TokenStream {
        let key = Ident::new(given.key, given.token.span());
        let value = match &given.value {
            // `client` decides how the tool is created, and `name` is an argument of that.
            Value::Nothing if given.key == "client" => return TokenStream::new(),
            Value::Name(_) => return TokenStream::new(),
            Value::Nothing => TokenStream::new(),
            Value::Time(value) | Value::OnUnknown(value) => value.clone(),
            Value::Rule(_) => self.rule(),
            Value::Method(method) => self.reconcile(method),
        };
        quote!(.#key(#value))
    }

    fn rule(&self) -> TokenStream {
        let Self { private, input, .. } = self;
        let name = &self.tool.name;
        let ask = code! {
            let input: #input = #private::parse_input(#name, arguments)?;
            __HelixRule::needs_approval(&*this, &input, &cx).await
        };
        self.sharing(&code!(arguments: #private::Value), &code!(cx), &ask)
    }

    fn reconcile(&self, method: &ExprPath) -> TokenStream {
        let Self {
            private,
            input,
            pattern,
            cx,
            ..
        } = self;
        let name = &self.tool.name;
        let call = self.call(at(method), &quote!(#method));
        let look = code! {
            let #pattern: #input = #private::parse_input(#name, arguments)?;
            #private::reconciled(#name, #call)
        };
        self.sharing(&code!(arguments: #private::Value), cx, &look)
    }

    /// Returns a closure that shares the toolset with the futures it returns.
    fn sharing(&self, input: &TokenStream, cx: &TokenStream, body: &TokenStream) -> TokenStream {
        let private = &self.private;
        code! {
            {
                let this = #private::Clone::clone(&this);
                move |#input, #cx: #private::ToolCx| {
                    let this = #private::Clone::clone(&this);
                    async move { #body }
                }
            }
        }
    }

    /// Returns a call of a toolset method with the arguments that the tool's method takes.
    fn call(&self, span: Span, method: &TokenStream) -> TokenStream {
        let passed = self.tool.params.passed.iter().map(|passed| match passed {
            Passed::Cx => code!(&cx),
            Passed::Input => code!(input),
            Passed::Field(ident) => quote!(#ident),
        });
        quote_spanned!(span=> #method(&this, #(#passed),*).await)
    }
}
