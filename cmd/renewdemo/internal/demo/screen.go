// The terminal or file to which the demo prints.

package demo

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// screen prints lines. On a terminal it also shows a table below them, in place. Other outputs,
// such as logs of CI, get plain lines without escape sequences.
type screen struct {
	w        io.Writer
	terminal bool
	drawn    int // lines of the table on the terminal
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	if runtime.GOOS == "windows" { // its older consoles show escape sequences as text
		terminal = terminal && os.Getenv("WT_SESSION") != ""
	}
	return &screen{w: f, terminal: terminal}
}

// interval returns how often the progress is shown.
func (s *screen) interval() time.Duration {
	if s.terminal {
		return 250 * time.Millisecond
	}
	return time.Second
}

// line prints a permanent line. The next table is drawn below it.
func (s *screen) line(format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// draw replaces the table. While it draws, the terminal does not wrap lines, so that the
// table has the same height on a narrow terminal.
func (s *screen) draw(lines []string) {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\r", s.drawn)
	}
	fmt.Fprint(s.w, "\x1b[?7l")
	for _, line := range lines {
		fmt.Fprintf(s.w, "%s\x1b[K\n", line)
	}
	fmt.Fprint(s.w, "\x1b[?7h")
	s.drawn = len(lines)
}

// clear removes the table.
func (s *screen) clear() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// keep makes the table permanent.
func (s *screen) keep() { s.drawn = 0 }
