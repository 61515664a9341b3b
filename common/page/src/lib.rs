//! No page of a role, no session and no resource enters here: this is what all pages for browsers have in common, whether an
//! operator or somebody who signs in looks at them.
//!
//! [`theme`] makes the colours and the stylesheet, [`asset`] serves files under their digests, [`site`] says where pages are
//! served at all and how cookies are called there, [`form`] and [`origin`] let in what a page of ours has sent, [`answer`] gives
//! every page its headers, and [`component`] is what pages are built of, beside the templates of this crate.

pub mod answer;
pub mod asset;
pub mod colour;
pub mod component;
pub mod cookie;
pub mod form;
pub mod origin;
pub mod site;
pub mod theme;
