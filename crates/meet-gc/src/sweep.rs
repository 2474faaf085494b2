//! Meetings in which nothing happens are closed, and forgotten in the end.

use lease::{Key, Phase, Result};

use crate::book::Kept;
use crate::gc::Site;
use crate::{limits, metric};

/// Sweeps for ever. Every controller does; a meeting is closed or forgotten once.
pub(crate) async fn keep_sweeping(site: &Site) {
    loop {
        site.pause(site.options.rules.sweep_every).await;
        if let Err(error) = sweep(site).await {
            tracing::warn!(%error, "the meetings could not be looked through");
        }
    }
}

/// Looks at every meeting once.
pub(crate) async fn sweep(site: &Site) -> Result<()> {
    let (mut closed, mut forgotten, mut seen) = (0, 0, 0);
    let mut after = None;
    loop {
        let (page, next) = site.page(after).await?;
        seen += page.len();
        for kept in page {
            match due(site, &kept).await? {
                Some(Due::Close) => closed += u64::from(close(site, kept).await),
                Some(Due::Forget) => forgotten += u64::from(site.forget(&kept).await.unwrap_or(false)),
                None => {}
            }
        }
        after = next;
        if after.is_none() || seen >= limits::SWEEP {
            break;
        }
    }
    metric::swept(closed, forgotten);
    Ok(())
}

enum Due {
    Close,
    Forget,
}

async fn due(site: &Site, kept: &Kept) -> Result<Option<Due>> {
    let rules = &site.options.rules;
    let over = |since: u64, time: std::time::Duration| {
        u128::from(site.now_ms().saturating_sub(since)) >= time.as_millis()
    };
    if let Some(since) = kept.meeting.closed_ms {
        return Ok(over(since, rules.kept_for).then_some(Due::Forget));
    }
    if !over(kept.meeting.active_ms, rules.inactive_after) {
        return Ok(None);
    }
    // Somebody may sit in it for hours without anybody joining.
    let lease = Key::new(format!("meeting:{}", kept.meeting.id))?;
    let held = site.bounded(site.options.store.inspect(&lease)).await?.phase == Phase::Held;
    Ok((!held).then_some(Due::Close))
}

async fn close(site: &Site, kept: Kept) -> bool {
    let now = site.now_ms();
    let active = kept.meeting.active_ms;
    let closed = site.change(kept, |meeting| {
        // Whoever joined meanwhile keeps it open.
        if meeting.active_ms == active {
            meeting.closed_ms = meeting.closed_ms.or(Some(now));
        }
    });
    closed.await.is_ok_and(|meeting| meeting.closed_ms.is_some())
}
