package check

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is what the tests need of a dashboard of Grafana.
type dashboard struct {
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

var (
	variable    = regexp.MustCompile(`\$\{?([a-z]\w*)`)
	legendLabel = regexp.MustCompile(`{{(\w+)}}`)
	documented  = regexp.MustCompile(`(?m)^//\t(leasewheel_\w+) +(histogram|gauge|counter)(.*)$`)
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
)

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("../dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// TestTheDashboardShowsWhatIsExported checks that each query names series and labels that
// leaseprom exports, and that each metric has a panel.
func TestTheDashboardShowsWhatIsExported(t *testing.T) {
	d, names := readDashboard(t), gathered(t)
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if m := labelValues.FindStringSubmatch(v.Definition); m != nil {
			for _, name := range names.check(t, m[1]) {
				assert.True(t, names[name][m[2]], v.Definition)
			}
		}
	}
	shown, queries := map[string]bool{}, 0
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			query := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			for _, m := range variable.FindAllStringSubmatch(query, -1) {
				assert.True(t, variables[m[1]], "there is no variable %s: %s", m[1], query)
			}
			for _, name := range names.check(t, query) {
				shown[metric(name)] = true
				for _, m := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					assert.True(t, names[name][m[1]], "%s has no label %s of the legend", name, m[1])
					assert.Regexp(t, `by \([a-z_, ]*\b`+m[1]+`\b`, query, "the legend names a label that the query drops")
				}
			}
			queries++
		}
	}
	assert.Positive(t, queries)
	for name := range names {
		assert.True(t, shown[metric(name)], "no panel shows %s", metric(name))
	}
}

// TestThePackageCommentListsTheMetrics checks the names and labels in it.
func TestThePackageCommentListsTheMetrics(t *testing.T) {
	text, err := os.ReadFile("../doc.go")
	require.NoError(t, err)
	listed := map[string]bool{}
	names := gathered(t)
	for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
		series := m[1]
		if m[2] == "histogram" {
			series += "_count"
		}
		if !assert.Contains(t, names, series) {
			continue
		}
		listed[m[1]] = true
		for label := range names[series] {
			if label != "job" && label != "instance" && label != "store" {
				assert.Contains(t, m[3], label, m[1])
			}
		}
	}
	for name := range names {
		assert.True(t, listed[metric(name)], "the package comment lacks %s", metric(name))
	}
}
