use super::*;

const EXACT: Leniency = Leniency { any_port: false, wildcards: false };

#[test]
fn a_uri_is_registered_character_by_character() {
    let registered = "https://shop.example/callback?tenant=1";
    assert!(is_registered(registered, registered, EXACT));
    for other in [
        "https://shop.example/callback",
        "https://shop.example/callback?tenant=1&x=2",
        "https://shop.example/callback?tenant=1#",
        "https://Shop.example/callback?tenant=1",
        "https://shop.example:443/callback?tenant=1",
        "https://shop.example/callback/?tenant=1",
        "https://shop.example/%63allback?tenant=1",
        "http://shop.example/callback?tenant=1",
        "",
    ] {
        assert!(!is_registered(registered, other, EXACT), "{other}");
    }
    assert!(!is_registered("javascript:a", "javascript:a", EXACT), "what is registered from before a rule");
}

#[test]
fn to_a_device_any_port_leads_and_nothing_else_differs() {
    let native = Leniency { any_port: true, ..EXACT };
    for (registered, uri, is_it) in [
        ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb", true),
        ("http://127.0.0.1:80/cb", "http://127.0.0.1/cb", true),
        ("http://[::1]:1/cb", "http://[::1]:2/cb", true),
        ("http://[::1]/cb", "http://[::1]:2/cb", true),
        ("http://localhost/cb", "http://localhost:2/cb", true),
        ("http://127.0.0.1/cb", "http://[::1]:1234/cb", false),
        ("http://127.0.0.1/cb", "http://localhost:1234/cb", false),
        ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb/", false),
        ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb?a", false),
        ("http://127.0.0.1/cb", "http://127.0.0.1:65536/cb", false),
        ("http://127.0.0.1:65536/cb", "http://127.0.0.1:65537/elsewhere", false),
        ("http://127.0.0.1/cb", "http://127.0.0.1:+1/cb", false),
        ("http://127.0.0.1/cb", "http://127.0.0.1:80@evil.example/cb", false),
        ("http://127.0.0.1/cb", "http://127.0.0.1:80.evil.example/cb", false),
        ("https://127.0.0.1/cb", "https://127.0.0.1:1234/cb", false),
        ("http://shop.example/cb", "http://shop.example:1234/cb", false),
    ] {
        assert_eq!(is_registered(registered, uri, native), is_it, "{registered} {uri}");
        assert_eq!(is_registered(registered, uri, EXACT), registered == uri, "{registered} {uri}");
    }
}

#[test]
fn a_wildcard_stands_for_characters_of_one_part() {
    let develops = Leniency { wildcards: true, ..EXACT };
    for (registered, uri, is_it) in [
        ("https://*.shop.example/cb", "https://a.shop.example/cb", true),
        ("https://*.shop.example/cb", "https://a.b.shop.example/cb", true),
        ("https://a-*-b-*.example/*/x", "https://a-b-1-b-2.example/p/x", true),
        ("https://shop.example/*", "https://shop.example/", true),
        ("https://shop.example/a*b", "https://shop.example/ab", true),
        ("https://shop.example/*", "https://shop.example//", false),
        ("https://*.shop.example/cb", "https://evil.example/.shop.example/cb", false),
        ("https://*.shop.example/cb", "https://evil.example?.shop.example/cb", false),
        ("https://*.shop.example/cb", "https://evil.example:1.shop.example/cb", false),
        ("https://*.shop.example/cb", "https://evil.example@a.shop.example/cb", false),
        ("https://shop.example/*/x", "https://shop.example/a/b/x", false),
        ("https://shop.example/*", "https://shop.example/a?b", false),
        ("https://shop.example/cb?x=*", "https://shop.example/cb?x=1&y=2", false),
        ("https://*.shop.example/cb", "https://*.shop.example/cb", false),
    ] {
        assert_eq!(is_registered(registered, uri, develops), is_it, "{registered} {uri}");
        assert!(!is_registered(registered, uri, EXACT), "{registered} {uri}");
    }
}

#[test]
fn what_can_work_is_taken_as_it_is() {
    for uri in [
        "https://shop.example/callback",
        "https://shop.example:8443/callback?tenant=1&states=2",
        "https://xn--bcher-kva.example/%C3%A4",
        "HTTPS://shop.example",
        "http://localhost/callback",
        "http://127.0.0.1:3000/",
        "http://[::1]:3000/callback",
        "com.example.shop:/callback",
        "com.example.shop://callback",
        "shop:callback",
    ] {
        assert_eq!(refused(uri, false), None, "{uri}");
    }
    for uri in ["https://*.shop.example/*", "http://localhost:*/callback"] {
        assert_eq!(refused(uri, true), None, "{uri}");
    }
}

#[test]
fn what_can_never_work_is_refused_for_a_reason() {
    for (uri, reason) in [
        ("", "absolute"),
        ("/callback", "absolute"),
        ("//shop.example/callback", "absolute"),
        ("shop.example/callback", "absolute"),
        ("1https://shop.example", "absolute"),
        ("https://shop.example/a b", "characters"),
        ("https://shop.example/\ta", "characters"),
        ("https://shop.example/\n", "characters"),
        ("https://shop.example/\u{0}", "characters"),
        ("https://shop.example\\@evil.example", "characters"),
        ("https://bücher.example/", "characters"),
        ("https://shop.example/#", "fragment"),
        ("https://shop.example/callback#part", "fragment"),
        ("com.example.shop:/callback#part", "fragment"),
        ("https://user@shop.example/", "user"),
        ("https://user:password@shop.example/", "user"),
        ("http://localhost:80@evil.example/", "user"),
        ("https:///callback", "host"),
        ("https:callback", "host"),
        ("http://:80/", "host"),
        ("https://?a=b", "host"),
        ("https://*.shop.example/", "wildcard"),
        ("https://shop.example/*", "wildcard"),
        ("javascript:alert(1)", "scheme"),
        ("JavaScript://shop.example/%0aalert(1)", "scheme"),
        ("data:text/html,a", "scheme"),
        ("vbscript:a", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("blob:https://shop.example/a", "scheme"),
        ("https://shop.example/?code=1", "parameter"),
        ("https://shop.example/?a=b&state=1", "parameter"),
        ("https://shop.example/?iss", "parameter"),
        ("https://shop.example/?error=a", "parameter"),
        ("https://shop.example/?%63ode=1", "parameter"),
        ("https://shop.example/?st%61t%65=1", "parameter"),
    ] {
        let found = refused(uri, false).unwrap_or_else(|| panic!("{uri} is refused"));
        assert!(found.contains(reason), "{uri}: {found}");
    }
}

#[test]
fn a_uri_says_where_it_leads() {
    let parts = |uri| UriParts::of(uri).expect("it has a scheme");
    for uri in ["http://localhost", "http://LOCALHOST:80/a", "http://127.0.0.1:1/", "http://[::1]", "http://[::1]:2/"] {
        assert!(parts(uri).is_loopback() && parts(uri).is_http(), "{uri}");
    }
    for uri in ["http://localhost.example", "http://127.0.0.1.example/", "http://a/localhost", "https://[::2]/"] {
        assert!(!parts(uri).is_loopback() && !parts(uri).is_custom(), "{uri}");
    }
    assert!(parts("com.example.shop:/a").is_custom() && !parts("com.example.shop:/a").is_http());
}

#[test]
fn browsers_say_no_port_that_goes_without_saying() {
    for (origin, said) in [
        ("HTTPS://Shop.example:443", "https://shop.example"),
        ("http://shop.example:80", "http://shop.example"),
        ("http://shop.example:443", "http://shop.example:443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ] {
        assert_eq!(said_origin(origin), said);
    }
}

#[test]
fn an_origin_is_that_and_nothing_else() {
    for origin in ["https://shop.example", "http://localhost:3000", "capacitor://localhost"] {
        assert_eq!(refused_origin(origin, false), None, "{origin}");
    }
    for origin in ["https://shop.example/", "https://shop.example?a", "https://a@b", "shop:callback", "data:a", "a"] {
        assert!(refused_origin(origin, false).is_some(), "{origin}");
    }
}

#[test]
fn only_what_is_percent_encoded_is_decoded() {
    for (name, read) in [
        ("%63ode", "code"),
        ("c%6Fd%65", "code"),
        ("%C3%A4", "\u{e4}"),
        ("%+f", "%+f"),
        ("%zz", "%zz"),
        ("%code", "%code"),
        ("100%", "100%"),
        ("a+b", "a+b"),
    ] {
        assert_eq!(decoded(name), read, "{name}");
    }
}

#[test]
fn a_port_is_left_out_if_it_is_a_number() {
    for (uri, parts) in [
        ("http://a:1/x", Some(("http://a", "/x"))),
        ("http://a/x:1", Some(("http://a", "/x:1"))),
        ("http://a:65535?x", Some(("http://a", "?x"))),
        ("http://[::1]:80", Some(("http://[::1]", ""))),
        ("http://[::1]/x", Some(("http://[::1]", "/x"))),
        ("http://a:65536/x", None),
        ("http://a:+1/x", None),
        ("http://a:/x", None),
        ("a:/x", None),
    ] {
        assert_eq!(without_port(uri), parts, "{uri}");
    }
}
