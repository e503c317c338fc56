package bench

import (
	"os"
	"runtime/pprof"
)

// Profile begins a CPU profile of this process, in a file. What it returns ends it.
func Profile(path string) (end func() error, err error) {
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
