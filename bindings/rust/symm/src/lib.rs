// SPDX-License-Identifier: Apache-2.0
//! The safe layer over `symm-sys`.
