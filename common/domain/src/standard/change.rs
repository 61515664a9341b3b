//! Commands on a resource that exists.

use super::{Event, Resource};
use crate::{aggregate::changed_fields, rejection::Rejection, with_unknown::WithUnknown};

pub(super) fn change<R: Resource>(
    old: &WithUnknown<R>,
    change: impl FnOnce(R) -> R,
) -> Result<Vec<Event<R>>, Rejection> {
    let to = old.clone().map(change);
    to.validate()?;
    let fields = changed_fields::<R>(old, &to);
    Ok(if fields.is_empty() { vec![] } else { vec![Event::Changed { to, fields }] })
}

/// Unlike a patch without change, switching off what is off is a mistake of the caller. Switching on or off unlocks.
pub(super) fn switch<R: Resource>(old: &WithUnknown<R>, on: bool) -> Result<Vec<Event<R>>, Rejection> {
    let mut to = R::clone(old);
    let Some(is_active) = to.activity() else {
        return Err(Rejection::Precondition("it cannot be switched off"));
    };
    if *is_active == on {
        return Err(Rejection::Precondition(if on { "it is active already" } else { "it is inactive already" }));
    }
    *is_active = on;
    if let Some(is_locked) = to.lock() {
        *is_locked = false;
    }
    let to = old.clone().map(|_| to);
    Ok(vec![if on { Event::Reactivated(to) } else { Event::Deactivated(to) }])
}

pub(super) fn lock<R: Resource>(old: &WithUnknown<R>, on: bool) -> Result<Vec<Event<R>>, Rejection> {
    let mut to = R::clone(old);
    let is_active = to.activity().is_none_or(|is_active| *is_active);
    let Some(is_locked) = to.lock() else { return Err(Rejection::Precondition("it cannot be locked")) };
    if *is_locked == on {
        return Err(Rejection::Precondition(if on { "it is locked already" } else { "it is not locked" }));
    }
    if on && !is_active {
        return Err(Rejection::Precondition("it is inactive and cannot be locked"));
    }
    *is_locked = on;
    let to = old.clone().map(|_| to);
    Ok(vec![if on { Event::Locked(to) } else { Event::Unlocked(to) }])
}

/// The event is written although nothing changes: it records who acted as whom.
pub(super) fn impersonate<R: Resource>(old: &WithUnknown<R>, client_id: String) -> Result<Vec<Event<R>>, Rejection> {
    let mut to = R::clone(old);
    let is_active = to.activity().is_none_or(|is_active| *is_active);
    let Some(is_locked) = to.lock() else { return Err(Rejection::Precondition("it cannot be impersonated")) };
    if !is_active || *is_locked {
        return Err(Rejection::Precondition("it is not active and cannot be impersonated"));
    }
    Ok(vec![Event::Impersonated { to: old.clone(), client_id }])
}

/// Whether there are any sessions is not known here, so each request results in an event.
pub(super) fn end_sessions<R: Resource>(old: &WithUnknown<R>, seen: u64) -> Result<Vec<Event<R>>, Rejection> {
    let mut to = R::clone(old);
    let Some(end) = to.sessions_end() else { return Err(Rejection::Precondition("it has no sessions")) };
    *end = Some(seen);
    Ok(vec![Event::SessionsEnded(old.clone().map(|_| to))])
}
