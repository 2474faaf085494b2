//! Closes inactive meetings and later deletes them.

use tenure_lease::{Key, Phase, Result};

use crate::gc::GcState;
use crate::meetings::StoredMeeting;
use crate::{limits, metric};

/// Sweeps periodically. Every global controller does; concurrent sweeps are safe.
pub(crate) async fn keep_sweeping(state: &GcState) {
    loop {
        state.pause(state.options.rules.sweep_every).await;
        if let Err(error) = sweep(state).await {
            tracing::warn!(%error, "meeting sweep failed");
        }
    }
}

/// Checks every meeting once.
pub(crate) async fn sweep(state: &GcState) -> Result<()> {
    let (mut closed, mut forgotten, mut seen) = (0, 0, 0);
    let mut after = None;
    loop {
        let (page, next) = state.page(after).await?;
        seen += page.len();
        for kept in page {
            match due(state, &kept).await? {
                Some(Due::Close) => closed += u64::from(close(state, kept).await),
                Some(Due::Forget) => forgotten += u64::from(state.forget(&kept).await.unwrap_or(false)),
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

async fn due(state: &GcState, kept: &StoredMeeting) -> Result<Option<Due>> {
    let rules = &state.options.rules;
    let over = |since: u64, time: std::time::Duration| {
        u128::from(state.now_ms().saturating_sub(since)) >= time.as_millis()
    };
    if let Some(since) = kept.meeting.closed_ms {
        return Ok(over(since, rules.kept_for).then_some(Due::Forget));
    }
    if !over(kept.meeting.active_ms, rules.inactive_after) {
        return Ok(None);
    }
    // A meeting can run for hours without a new join.
    let lease = Key::new(format!("meeting:{}", kept.meeting.id))?;
    let held = state.bounded(state.options.store.inspect(&lease)).await?.phase == Phase::Held;
    Ok((!held).then_some(Due::Close))
}

async fn close(state: &GcState, kept: StoredMeeting) -> bool {
    let now = state.now_ms();
    let active = kept.meeting.active_ms;
    let closed = state.change(kept, |meeting| {
        // A join in the meantime keeps it open.
        if meeting.active_ms == active {
            meeting.closed_ms = meeting.closed_ms.or(Some(now));
        }
    });
    closed.await.is_ok_and(|meeting| meeting.closed_ms.is_some())
}
