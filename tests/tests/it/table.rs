//! Tables of all operations, errors and files, compared with the code.

mod columns;
mod conformance;
mod described;
mod errors;
mod filters;
mod matrix;
mod names;
mod parameters;
mod projections;
mod surface;
mod tidy;
mod walks;
