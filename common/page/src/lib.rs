//! What all pages for browsers have in common, whether they are for operators or for people who sign in. No page of a
//! role, no session and no resource enters here.
//!
//! [`theme`] makes the colours and the stylesheet, [`asset`] serves files under their digests, [`site`] determines
//! where pages are served and how cookies are named there, [`form`] and [`origin`] accept what a page of this site has
//! sent, [`answer`] adds the headers of every page, and [`component`] is what pages are built of, beside the templates
//! of this crate.

pub mod answer;
pub mod asset;
pub mod colour;
pub mod component;
pub mod cookie;
pub mod form;
pub mod origin;
pub mod site;
pub mod theme;
