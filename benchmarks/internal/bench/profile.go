// The CPU profile of a process.

package bench

import (
	"os"
	"runtime/pprof"
)

// Profile starts a CPU profile of this process and writes it to a file. The
// returned function ends the profile.
func Profile(path string) (stop func() error, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
