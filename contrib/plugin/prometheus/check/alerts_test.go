package check

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readAlerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile("../alerts.yml", false, model.UTF8Validation, promqlParser, slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	rules := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			require.NotEmpty(t, r.Alert)
			require.NotContains(t, rules, r.Alert)
			rules[r.Alert] = r
		}
	}
	return rules
}

func TestTheAlertsAreOfWhatIsExported(t *testing.T) {
	names := gathered(t)
	for alert, r := range readAlerts(t) {
		names.check(t, r.Expr)
		assert.Contains(t, []string{"info", "warning", "critical"}, r.Labels["severity"], alert)
		assert.NotEmpty(t, r.Annotations["summary"], alert)
	}
}

// TestTheRunbookHasEachAlert checks the table in the page for operators.
func TestTheRunbookHasEachAlert(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/OPERATIONS.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(page), "\n## Alerts\n"), "alerts link to a section that does not exist") //nolint:testifylint // Contains prints the page
	alerts := readAlerts(t)
	for alert, r := range alerts {
		assert.Positive(t, strings.Count(string(page), "\n| `"+alert+"` |"), alert)
		assert.True(t, strings.HasSuffix(r.Annotations["runbook_url"], "/docs/OPERATIONS.md#alerts"), alert)
	}
	assert.Equal(t, len(alerts), strings.Count(string(page), "\n| `Leasewheel"), "the page names an alert that does not exist")
}

// behaviour is when an alert fires for synthetic series.
type behaviour struct {
	name   string
	series []string // one sample a minute
	fires  int      // the first minute in which it fires; -1 for never
	until  int      // the first minute after that in which it does not; 0: it goes on
	labels string   // of the alert that fires
}

const minutes = 30 // that each case lasts

var behaviours = map[string][]behaviour{
	"LeasewheelLocksLost": {
		{"a loss", []string{
			`leasewheel_lease_losses_total{job="app", store="redis", kind="mutex", reason="failed"} 0x9 1x20`,
		}, 10, 14, `{job="app", kind="mutex", reason="failed", store="redis"}`},
		{"the end of its terms", []string{
			`leasewheel_lease_losses_total{job="app", store="redis", kind="mutex", reason="limit_reached"} 0+5x30`,
			`leasewheel_lease_losses_total{job="app", store="redis", kind="mutex", reason="failed"} 0x30`,
		}, -1, 0, ""},
		{"a restart", []string{
			`leasewheel_lease_losses_total{job="app", store="redis", kind="mutex", reason="failed"} 7x9 0x20`,
		}, -1, 0, ""},
	},
	"LeasewheelToldTooLate": {
		{"too late", []string{
			`leasewheel_lease_loss_margin_seconds_bucket{job="app", store="redis", reason="expired", le="0"} 0x9 1x20`,
			`leasewheel_lease_loss_margin_seconds_bucket{job="app", store="redis", reason="expired", le="0.01"} 0x9 1x20`,
		}, 10, 14, `{job="app", reason="expired", store="redis"}`},
		{"the bound as Prometheus 3 writes it", []string{
			`leasewheel_lease_loss_margin_seconds_bucket{job="app", store="redis", reason="expired", le="0.0"} 0x9 1x20`,
		}, 10, 14, `{job="app", reason="expired", store="redis"}`},
		{"in time", []string{
			`leasewheel_lease_loss_margin_seconds_bucket{job="app", store="redis", reason="expired", le="0"} 0x30`,
			`leasewheel_lease_loss_margin_seconds_bucket{job="app", store="redis", reason="expired", le="0.01"} 0+1x30`,
			`leasewheel_lease_loss_margin_seconds_bucket{job="app", store="redis", reason="limit_reached", le="0"} 0+1x30`,
		}, -1, 0, ""},
	},
	"LeasewheelRenewalsUnanswered": {
		{"an outage in which 100 leases fail twice and are lost", []string{
			`leasewheel_renewal_leases_total{job="app", store="redis", outcome="renewed"} 0+600x9 5400x20`,
			`leasewheel_renewal_leases_total{job="app", store="redis", outcome="unknown"} 0x9 200x20`,
		}, 12, 14, `{job="app", store="redis"}`},
		{"a single failure", []string{
			`leasewheel_renewal_leases_total{job="app", store="redis", outcome="renewed"} 0+600x30`,
			`leasewheel_renewal_leases_total{job="app", store="redis", outcome="unknown"} 0x9 1x20`,
		}, -1, 0, ""},
		{"nothing to renew", []string{
			`leasewheel_renewal_leases_total{job="app", store="redis", outcome="renewed"} 0x30`,
			`leasewheel_renewal_leases_total{job="app", store="redis", outcome="unknown"} 0x30`,
		}, -1, 0, ""},
	},
	"LeasewheelRenewalsLate": {
		{"late from the tenth minute", []string{
			`leasewheel_renewal_lateness_seconds_bucket{job="app", store="redis", le="1"} 0+100x9 900x20`,
			`leasewheel_renewal_lateness_seconds_bucket{job="app", store="redis", le="5"} 0+100x30`,
			`leasewheel_renewal_lateness_seconds_bucket{job="app", store="redis", le="+Inf"} 0+100x30`,
		}, 15, 0, `{job="app", store="redis"}`},
		{"in time", []string{
			`leasewheel_renewal_lateness_seconds_bucket{job="app", store="redis", le="1"} 0+100x30`,
			`leasewheel_renewal_lateness_seconds_bucket{job="app", store="redis", le="5"} 0+100x30`,
			`leasewheel_renewal_lateness_seconds_bucket{job="app", store="redis", le="+Inf"} 0+100x30`,
		}, -1, 0, ""},
	},
	"LeasewheelRenewalsOverdue": {
		{"one process", []string{
			`leasewheel_renewal_due_age_seconds{job="app", store="redis", instance="a"} 0x9 6x5 0x15`,
			`leasewheel_renewal_due_age_seconds{job="app", store="redis", instance="b"} 0x30`,
		}, 11, 16, `{job="app", store="redis"}`},
		{"for one scrape", []string{`leasewheel_renewal_due_age_seconds{job="app", store="redis"} 0x9 6 0x20`}, -1, 0, ""},
	},
	"LeasewheelStoreUnavailable": {
		{"a tenth of the calls", []string{
			`leasewheel_lock_acquire_duration_seconds_count{job="app", store="redis", kind="mutex", outcome="acquired"} 0+90x30`,
			`leasewheel_lock_acquire_duration_seconds_count{job="app", store="redis", kind="mutex", outcome="unavailable"} 0x9 10+10x20`,
		}, 12, 0, `{job="app", store="redis"}`},
		{"contention", []string{
			`leasewheel_lock_acquire_duration_seconds_count{job="app", store="redis", kind="mutex", outcome="held_by_other"} 0+90x30`,
			`leasewheel_lock_acquire_duration_seconds_count{job="app", store="redis", kind="mutex", outcome="canceled"} 0+90x30`,
			`leasewheel_lock_acquire_duration_seconds_count{job="app", store="redis", kind="mutex", outcome="unavailable"} 0x30`,
		}, -1, 0, ""},
	},
	"LeasewheelTooManyWaiters": {
		{"in one process", []string{`leasewheel_lock_waiters{job="app", store="redis", instance="a"} 0x9 6000x20`}, 15, 0, `{job="app", store="redis"}`},
		{"in many processes together", []string{
			`leasewheel_lock_waiters{job="app", store="redis", instance="a"} 4000x30`,
			`leasewheel_lock_waiters{job="app", store="redis", instance="b"} 4000x30`,
		}, -1, 0, ""},
	},
	"LeasewheelReleasesPending": {
		{"for long", []string{`leasewheel_releases_pending{job="app", store="redis"} 0x9 1x20`}, 19, 0, `{job="app", store="redis"}`},
		{"now and then, in one process or another", []string{
			`leasewheel_releases_pending{job="app", store="redis", instance="a"} 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0`,
			`leasewheel_releases_pending{job="app", store="redis", instance="b"} 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1`,
		}, -1, 0, ""},
	},
	"LeasewheelNoLeader": {
		{"the leader resigns", []string{
			`leasewheel_election_leading{job="app", store="redis", name="cron", instance="a"} 1x9 0x20`,
			`leasewheel_election_leading{job="app", store="redis", name="cron", instance="b"} 0x30`,
		}, 12, 0, `{job="app", name="cron", store="redis"}`},
		{"another one follows", []string{
			`leasewheel_election_leading{job="app", store="redis", name="cron", instance="a"} 1x9 0x20`,
			`leasewheel_election_leading{job="app", store="redis", name="cron", instance="b"} 0x10 1x19`,
		}, -1, 0, ""},
		{"the leader disappears", []string{
			`leasewheel_election_leading{job="app", store="redis", instance="a"} 1x9 _x20`,
			`leasewheel_election_leading{job="app", store="redis", instance="b"} 0x30`,
		}, 16, 0, `{job="app", store="redis"}`},
	},
	"LeasewheelTwoLeaders": {
		{"of one election", []string{
			`leasewheel_election_leading{job="app", store="redis", name="cron", instance="a"} 1x30`,
			`leasewheel_election_leading{job="app", store="redis", name="cron", instance="b"} 0x9 1x20`,
		}, 12, 0, `{job="app", name="cron", store="redis"}`},
		{"of different elections", []string{
			`leasewheel_election_leading{job="app", store="redis", name="cron", instance="a"} 1x30`,
			`leasewheel_election_leading{job="app", store="redis", name="mail", instance="a"} 1x30`,
			`leasewheel_election_leading{job="app", store="other", instance="a"} 2x30`,
		}, -1, 0, ""},
	},
	"LeasewheelTimerPanicked": {
		{"a panic", []string{`leasewheel_timer_panics_total{job="app", store="redis", engine="wheel"} 0x9 1x20`}, 10, 14, `{engine="wheel", job="app", store="redis"}`},
		{"none", []string{`leasewheel_timer_panics_total{job="app", store="redis", engine="wheel"} 3x30`}, -1, 0, ""},
	},
	"LeasewheelMetricsIncomplete": {
		{"a drop", []string{`leasewheel_hook_drops_total{job="app", store="redis"} 0x9 4x20`}, 10, 14, `{job="app", store="redis"}`},
		{"none", []string{`leasewheel_hook_drops_total{job="app", store="redis"} 0x30`}, -1, 0, ""},
	},
}

// TestWhenTheAlertsFire evaluates each alert once a minute, as a server does: it fires when its
// expression has had a result for as long as its "for" says.
func TestWhenTheAlertsFire(t *testing.T) {
	engine, alerts := newEngine(t), readAlerts(t)
	for alert := range behaviours {
		assert.Contains(t, alerts, alert)
	}
	for alert, rule := range alerts {
		cases := behaviours[alert]
		assert.GreaterOrEqual(t, len(cases), 2, "%s needs a case in which it fires and one in which it does not", alert)
		for _, c := range cases {
			t.Run(alert+"/"+c.name, func(t *testing.T) {
				series := load(t, c.series...)
				var active time.Duration = -1 // since when the expression has had a result
				var want, got []string
				for minute := range minutes {
					at := time.Duration(minute) * interval
					found := series.evaluate(t, engine, rule.Expr, at)
					switch {
					case len(found) == 0:
						active = -1
					case active < 0:
						active = at
					}
					if active >= 0 && at-active >= time.Duration(rule.For) {
						got = append(got, fmt.Sprint(minute, " ", found[0]))
					}
					if c.fires >= 0 && minute >= c.fires && (c.until == 0 || minute < c.until) {
						want = append(want, fmt.Sprint(minute, " ", c.labels))
					}
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

// TestPromtoolAcceptsTheAlerts runs the tool that operators use, if it is there.
func TestPromtoolAcceptsTheAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("WARNING: promtool IS NOT INSTALLED, so it has not checked alerts.yml; on Debian it is in the package prometheus")
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "../alerts.yml").CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
