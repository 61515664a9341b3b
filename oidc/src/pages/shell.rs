//! The surroundings of every login page: its title, the choice of languages, and links to help.

use domain::{
    context::{Owner, OwnerType},
    setting::help::Help,
    settings::Chain,
};
use page::component::Frame;

use super::{
    appearance::Appearance,
    brand::Logo,
    visit::{Visit, Visitor},
};
use crate::{
    after_logout::PARAMETERS,
    endpoint::REQUEST,
    files::FILES,
    words::{Language, Words},
};

/// The surroundings of a page, within its frame.
pub(super) struct Shell<'a> {
    pub(super) words: &'a Words,
    pub(super) title: String,
    /// Whether the input has errors.
    pub(super) is_wrong: bool,
    /// The id of the authorization request, for forms.
    pub(super) request: &'a str,
    /// The token that binds forms to the browser.
    pub(super) token: String,
    pub(super) languages: Vec<Pick>,
    pub(super) links: Vec<Link>,
    pub(super) has_watermark: bool,
    pub(super) logo: Option<Logo>,
    /// The name of the organization or instance, shown instead of a logo.
    pub(super) brand: &'a str,
}

/// A language that may be picked.
pub(super) struct Pick {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
    pub(super) path: String,
    pub(super) is_picked: bool,
}

/// A link to help.
pub(super) struct Link {
    pub(super) text: String,
    pub(super) url: String,
}

impl<'a> Shell<'a> {
    /// Makes the shell of a page on the way to an app.
    pub(super) fn new(visit: &'a Visit, title: String) -> (Frame, Self) {
        let (frame, shell) = Self::of(&visit.visitor, &visit.words, &visit.context, title);
        let is_own = shell.logo.as_ref().is_some_and(|logo| logo.owner.kind == OwnerType::Organization);
        let brand = visit.organization.as_deref().filter(|_| is_own).unwrap_or(shell.brand);
        (frame, Self { brand, ..shell })
    }

    /// Makes the shell of a page in a context.
    pub(super) fn of(visitor: &'a Visitor, words: &'a Words, context: &Owner, title: String) -> (Frame, Self) {
        let (settings, instance_id) = (&visitor.oidc.edge.settings, visitor.tenant.id.as_str());
        let look = Appearance::of(settings, instance_id, context);
        let usual = Frame::english(&look.stylesheet, &FILES.icon.path);
        let frame = Frame {
            script: Some(FILES.script.path.clone()),
            lang: words.language.code,
            dir: words.language.dir,
            schemes: look.schemes,
            skip: words.get("page.skip").to_owned(),
            font: look.font,
            icons: if look.icons.is_empty() { usual.icons } else { look.icons },
            ..usual
        };
        let shell = Self {
            words,
            title,
            is_wrong: false,
            request: &visitor.request,
            token: visitor.token(),
            languages: picks(visitor, words),
            links: links(words, &settings.effective::<Help>(instance_id, context).chain),
            has_watermark: look.has_watermark,
            logo: look.logo,
            brand: &visitor.tenant.instance.name,
        };
        (frame, shell)
    }

    /// Returns the shell with the mark for errors.
    pub(super) fn wrong(self, is_wrong: bool) -> Self {
        Self { is_wrong, ..self }
    }

    /// Returns a text.
    pub(super) fn get(&self, key: &str) -> &str {
        self.words.get(key)
    }
}

/// Returns the languages, where there is a choice.
fn picks(visitor: &Visitor, words: &Words) -> Vec<Pick> {
    let path = |code: &str| {
        // The other parameters of the page stay as they are.
        let kept = [visitor.sent(&[REQUEST, "account"]), visitor.sent(&PARAMETERS), vec![("language", code)]].concat();
        format!("{}?{}", visitor.path(), serde_urlencoded::to_string(kept).unwrap_or_default())
    };
    let pick = |language: &&'static Language| Pick {
        code: language.code,
        name: language.name,
        path: path(language.code),
        is_picked: language.code == words.language.code,
    };
    if words.languages.len() > 1 { words.languages.iter().map(pick).collect() } else { vec![] }
}

/// Returns the links that are set and lead to pages or to a mail address.
fn links(words: &Words, help: &Chain<Help>) -> Vec<Link> {
    let set = |property: fn(&Help) -> Option<&String>| help.resolve(property).value.as_str();
    let is_page = |url: &str| url.starts_with("https://") || url.starts_with("http://");
    let mail = Some(set(|it| it.support_email.as_ref())).filter(|mail| mail.contains('@'));
    let mail = mail.map(|mail| format!("mailto:{}", mail.replace(['?', '&', '%', ' '], "")));
    let custom = Some(set(|it| it.custom_link_text.as_ref())).filter(|text| !text.is_empty());
    let all = [
        (words.get("help.terms"), set(|it| it.tos_link.as_ref())),
        (words.get("help.privacy"), set(|it| it.privacy_policy_link.as_ref())),
        (words.get("help.help"), set(|it| it.help_link.as_ref())),
        (words.get("help.docs"), set(|it| it.docs_link.as_ref())),
        (custom.unwrap_or_else(|| words.get("help.custom")), set(|it| it.custom_link.as_ref())),
    ];
    let pages = all.into_iter().filter(|(_, url)| is_page(url));
    let pages = pages.map(|(text, url)| Link { text: text.to_owned(), url: url.to_owned() });
    pages.chain(mail.map(|url| Link { text: words.get("help.support").to_owned(), url })).collect()
}
