// SPDX-License-Identifier: Apache-2.0
//! The types and constants: what bindgen says, but constants of an enum have the type in which C passes them.

use std::collections::HashSet;
use syn::{Item, Type, parse_quote};

/// `symm_x_values` is the enum and `symm_x_t` the integer in structs and parameters: constants get the latter.
pub fn polish(items: Vec<Item>) -> syn::Result<Vec<Item>> {
    let aliases: HashSet<String> = items.iter().filter_map(alias_name).collect();
    // The C preprocessor's UINT64_MAX is no literal, so bindgen does not see it.
    let mut out = vec![parse_quote!(
        /// No deadline.
        pub const SYMM_TIMEOUT_INFINITE: u64 = u64::MAX;
    )];
    for mut item in items {
        if let Item::Const(constant) = &mut item {
            if let Some(name) = type_name(&constant.ty) {
                if let Some(stem) = name.strip_suffix("_values") {
                    let alias = format!("{stem}_t");
                    constant.ty = match stem {
                        "symm_group_flag" | "symm_alloc_flag" => parse_quote!(u64),
                        "symm_misc" => parse_quote!(i32),
                        _ if aliases.contains(&alias) => syn::parse_str(&alias)?,
                        _ => {
                            return Err(syn::Error::new_spanned(
                                &constant.ident,
                                format!("no integer type for {name}"),
                            ));
                        }
                    };
                }
            }
        }
        if alias_name(&item).is_some_and(|name| name.ends_with("_values")) {
            continue;
        }
        out.push(item);
    }
    Ok(out)
}

fn alias_name(item: &Item) -> Option<String> {
    match item {
        Item::Type(alias) => Some(alias.ident.to_string()),
        _ => None,
    }
}

fn type_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}
