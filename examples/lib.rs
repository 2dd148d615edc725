//! Programs that teach Lockkeeper; see the `examples` of this package. The programs in the project's texts are tested
//! here too.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/wire-format.md")]
struct WireFormat;
