package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestGoalsShowsThoseThatAreMissed(t *testing.T) {
	all := Table{{"goal", "a", "b"}, {"x", "1 ✓", "2 ✗"}, {"y", "1 ✓", "–"}}
	assert.Equal(t, "1 of 2 goals are met. Missed:\n\n| goal | a   | b   |\n| ---- | --- | --- |\n| x    | 1 ✓ | 2 ✗ |\n", all.Goals())
	assert.Equal(t, "All 1 goals are met.\n", Table{all[0], all[2]}.Goals())
}
