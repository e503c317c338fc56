// The live table.

package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	width      = 79 // of a line: with 80, some terminals wrap
	sparkWidth = 48
)

// header names the columns of a row.
const header = "  time      held renewals/s   batch  late p50  late p99      lost goroutines"

// row formats a sample as a line for logs.
func (s sample) row(at time.Duration) string {
	return fmt.Sprintf("%5.0fs %9d %10.0f %7.0f %9v %9v %9d %10d",
		at.Seconds(), s.held, s.rate, s.batch, round(s.p50), round(s.p99), s.lost, s.goroutines)
}

// table returns the lines of the live table. None is longer than width.
func (m *meter) table(p phase) []string {
	s := m.history[len(m.history)-1]
	done := min(p.done(), p.total)
	progress := fmt.Sprintf("%s of %s", count(done), count(p.total))
	if p.name == holdingPhase {
		progress = fmt.Sprintf("%.1f of %g s", float64(done)/1000, float64(p.total)/1000)
	}
	lines := []string{
		fmt.Sprintf("%-11s%s  %s", p.name, bar(done, p.total, 40), progress),
		fmt.Sprintf("%-11s%12s  %s", "held", count(s.held), m.spark(func(s sample) float64 { return float64(s.held) })),
		fmt.Sprintf("%-11s%12s  %s", "renewals/s", count(int(s.rate)), m.spark(func(s sample) float64 { return s.rate })),
		fmt.Sprintf("%-11s%12v  %s", "late p99", round(s.p99), m.spark(func(s sample) float64 { return float64(s.p99) })),
		fmt.Sprintf("%-11s%12v  batches of %.0f leases, %d goroutines, %s lost", "late p50", round(s.p50), s.batch, s.goroutines, count(int(s.lost))),
	}
	for i, line := range lines {
		lines[i] = cut(line)
	}
	return lines
}

// spark draws one figure of all samples in the history, the latest at the right.
func (m *meter) spark(figure func(sample) float64) string {
	values := make([]float64, len(m.history))
	for i, s := range m.history {
		values[i] = figure(s)
	}
	return spark(values)
}

// spark draws values as bars of eight heights. The largest value has the full height.
func spark(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	var most float64
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		height := 0
		if most > 0 {
			height = int(v / most * float64(len(bars)-1))
		}
		b.WriteRune(bars[height])
	}
	return b.String()
}

// bar draws the share of done in total as a bar of n characters.
func bar(done, total, n int) string {
	full := n
	if total > 0 {
		full = n * done / total
	}
	return strings.Repeat("█", full) + strings.Repeat("░", n-full)
}

// cut shortens a line to the width of the table.
func cut(line string) string {
	if r := []rune(line); len(r) > width {
		return string(r[:width])
	}
	return line
}

// count formats a number with commas between thousands.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
