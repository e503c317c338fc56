// The processes of PostgreSQL sessions on Linux.

package testsql

import (
	"os"
	"path/filepath"
	"strconv"
)

// sessions returns the children of the postmaster, also after its end. Their working directory
// is the data folder.
func (p *Postgres) sessions() []int {
	var pids []int
	data := p.data()
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == data {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid != p.process.cmd.Process.Pid {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
