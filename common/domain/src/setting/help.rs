//! The links that pages show.

use crate::properties::properties;

properties! {
    /// The links that pages of one context show; none where it is empty.
    Help / HelpChange {
        /// The terms of service.
        tos_link: String = String::new();
        /// The privacy policy.
        privacy_policy_link: String = String::new();
        /// Where users are helped.
        help_link: String = String::new();
        /// Who answers questions.
        support_email: String = String::new();
        /// Where the documentation is.
        docs_link: String = String::new();
        /// A further link.
        custom_link: String = String::new();
        /// What the further link is called.
        custom_link_text: String = String::new();
    } is {
        const NAME: &'static str = "help_settings";
    }
}
