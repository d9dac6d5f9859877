// SPDX-License-Identifier: Apache-2.0
//! The functions, as an `extern` block and as a table of addresses that were looked up at run time.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, FnArg, ForeignItem, ForeignItemFn, Ident, Item, Type, parse_quote};

/// The functions in the `extern` blocks that bindgen made.
pub fn functions(blocks: Vec<Item>) -> syn::Result<Vec<ForeignItemFn>> {
    let mut out = Vec::new();
    for block in blocks {
        let Item::ForeignMod(block) = block else { continue };
        for item in block.items {
            match item {
                ForeignItem::Fn(function) => out.push(function),
                other => return Err(syn::Error::new_spanned(other, "not a function")),
            }
        }
    }
    Ok(out)
}

/// `unsafe extern "C" { ... }`.
pub fn extern_block(functions: &[ForeignItemFn]) -> Vec<Item> {
    let bare = functions
        .iter()
        .map(|function| ForeignItemFn { attrs: vec![see_table(&function.sig.ident)], ..function.clone() });
    vec![
        parse_quote!(
            use super::types::*;
        ),
        parse_quote!(unsafe extern "C" { #(#bare)* }),
    ]
}

/// `struct Api` and its methods.
pub fn table(functions: &[ForeignItemFn]) -> Vec<Item> {
    let names: Vec<&Ident> = functions.iter().map(|function| &function.sig.ident).collect();
    let pointers: Vec<Type> = functions.iter().map(pointer).collect();
    let texts: Vec<Literal> = names.iter().map(|name| Literal::string(&name.to_string())).collect();
    let symbols: Vec<Literal> = names.iter().map(|name| c_string(name)).collect();
    let methods = functions.iter().map(method);
    vec![
        parse_quote!(
            use super::types::*;
        ),
        parse_quote!(
            use crate::MissingSymbol;
        ),
        parse_quote!(
            /// The functions of one loaded library. A function that the library does not have is an error when it is called.
            pub struct Api { #(#names: Option<#pointers>,)* }
        ),
        parse_quote!(
            impl Api {
                /// The names of all functions of the header that these bindings were made from.
                pub const NAMES: &'static [&'static str] = &[#(#texts,)*];

                /// The functions that the loaded library does not have.
                pub fn missing(&self) -> impl Iterator<Item = &'static str> {
                    let there = [#(self.#names.is_some(),)*];
                    Self::NAMES.iter().copied().zip(there).filter_map(|(name, there)| (!there).then_some(name))
                }

                /// # Safety
                /// `find` returns the address of the C function of that name and `symm.h`'s type, or `None`.
                pub(crate) unsafe fn resolve(mut find: impl FnMut(&'static core::ffi::CStr) -> Option<*const core::ffi::c_void>) -> Self {
                    // SAFETY: by the contract of this function, the addresses are of functions of these types.
                    unsafe { Self { #(#names: find(#symbols).map(|address| core::mem::transmute::<*const core::ffi::c_void, #pointers>(address)),)* } }
                }

                /// The functions that the linker found.
                #[cfg(feature = "linked")]
                pub(crate) fn linked() -> Self {
                    Self { #(#names: Some(super::linked::#names),)* }
                }

                #(#methods)*
            }
        ),
    ]
}

fn pointer(function: &ForeignItemFn) -> Type {
    let (names, types) = arguments(function);
    let output = &function.sig.output;
    parse_quote!(unsafe extern "C" fn(#(#names: #types),*) #output)
}

fn method(function: &ForeignItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let text = name.to_string();
    let docs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let (names, types) = arguments(function);
    let result: Type = match &function.sig.output {
        syn::ReturnType::Default => parse_quote!(()),
        syn::ReturnType::Type(_, ty) => (**ty).clone(),
    };
    let many = (names.len() > 6).then(|| quote!(#[allow(clippy::too_many_arguments)]));
    quote! {
        #(#docs)*
        ///
        /// # Safety
        /// As the C function: pointers are valid for what it does with them, handles are its own.
        #[inline]
        #many
        pub unsafe fn #name(&self, #(#names: #types),*) -> Result<#result, MissingSymbol> {
            // SAFETY: the caller keeps the contract of the C function.
            self.#name.map(|function| unsafe { function(#(#names),*) }).ok_or(MissingSymbol { name: #text })
        }
    }
}

fn arguments(function: &ForeignItemFn) -> (Vec<Ident>, Vec<Type>) {
    let typed = function.sig.inputs.iter().enumerate().filter_map(|(index, argument)| match argument {
        FnArg::Typed(argument) => {
            let name = match &*argument.pat {
                syn::Pat::Ident(pattern) => pattern.ident.clone(),
                _ => format_ident!("argument_{index}"),
            };
            Some((name, (*argument.ty).clone()))
        }
        FnArg::Receiver(_) => None,
    });
    typed.unzip()
}

fn c_string(name: &Ident) -> Literal {
    let bytes = std::ffi::CString::new(name.to_string()).unwrap_or_default();
    Literal::c_string(&bytes)
}

fn see_table(name: &Ident) -> Attribute {
    let text = format!("See [`Api::{name}`](crate::Api::{name}).");
    parse_quote!(#[doc = #text])
}
