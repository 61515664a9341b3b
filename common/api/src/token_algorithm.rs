//! Converts algorithms of tokens between the API and the core.

use proto::object::TokenAlgorithm;

/// The JWA names; the default algorithm has none.
const NAMES: [(TokenAlgorithm, &str); 6] = [
    (TokenAlgorithm::Rs256, "RS256"),
    (TokenAlgorithm::Rs384, "RS384"),
    (TokenAlgorithm::Rs512, "RS512"),
    (TokenAlgorithm::Es256, "ES256"),
    (TokenAlgorithm::Es384, "ES384"),
    (TokenAlgorithm::Eddsa, "EdDSA"),
];

/// Returns the JWA name of an algorithm; `None` for the default one.
pub(crate) fn name(algorithm: TokenAlgorithm) -> Option<String> {
    NAMES.iter().find(|(known, _)| *known == algorithm).map(|(_, name)| (*name).to_owned())
}

/// Returns the algorithm with a name.
pub(crate) fn to_proto(name: Option<&str>) -> TokenAlgorithm {
    let found = NAMES.iter().find(|(_, known)| Some(*known) == name);
    found.map_or(TokenAlgorithm::Unspecified, |(algorithm, _)| *algorithm)
}
