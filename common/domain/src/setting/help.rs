//! The links that pages show.

use crate::properties::properties;

properties! {
    /// The links that pages of one context show; empty ones are left out.
    Help / HelpChange {
        /// The terms of service.
        tos_link: String = String::new();
        /// The privacy policy.
        privacy_policy_link: String = String::new();
        /// The page that helps users.
        help_link: String = String::new();
        /// The e-mail address for questions.
        support_email: String = String::new();
        /// The documentation.
        docs_link: String = String::new();
        /// A further link.
        custom_link: String = String::new();
        /// The text of the further link.
        custom_link_text: String = String::new();
    } is {
        const NAME: &'static str = "help_settings";
    }
}
