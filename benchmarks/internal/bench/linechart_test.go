package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLineChart(t *testing.T) {
	c := LineChart{
		Title: "a < b", Unit: "ms", XLabel: "pending", X: []string{"0", "1M"}, Low: 0.1,
		Panels: []Panel{{Title: "one", Series: []Series{
			{Name: "wheel", Ours: true, Values: []float64{0, 10}},
			{Name: "peer", Values: []float64{math.NaN(), 10}},
		}}},
	}
	svg := c.SVG()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	assert.Contains(t, svg, "a &lt; b")
	assert.Contains(t, svg, `points="70.0,390.0 310.0,60.0"`, "0 is drawn at Low")
	assert.Equal(t, 1, strings.Count(svg, "<polyline"), "one point makes no line")
	assert.Contains(t, svg, `y="64.0">wheel 10<`)
	assert.Contains(t, svg, `y="79.0">peer 10<`, "the names do not overlap")
	assert.Contains(t, svg, `x1="314.0" y1="60.0" x2="337.0" y2="75.0"`, "a line leads to a name that has moved")
	assert.Contains(t, svg, ">10 ms<")
	assert.Empty(t, LineChart{}.SVG())
}
