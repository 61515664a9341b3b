//! Tables of all operations, errors and files, held against what is there.

mod conformance;
mod errors;
mod matrix;
mod surface;
mod tidy;
