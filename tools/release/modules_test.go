package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each version of a library is compiled by itself, and so is all that imports it.
func TestPrivateModulesRequireTheSameVersions(t *testing.T) {
	modules, err := findModules("../..")
	require.NoError(t, err)
	folders := map[string]map[string]string{} // of each required module, the folder that requires a version
	for _, m := range modules {
		if m.public || m.rel == "tools" { // whose programs share nothing with tests
			continue
		}
		file, err := m.read()
		require.NoError(t, err)
		for _, r := range file.Require {
			if folders[r.Mod.Path] == nil {
				folders[r.Mod.Path] = map[string]string{}
			}
			folders[r.Mod.Path][r.Mod.Version] = m.rel
		}
	}
	assert.Contains(t, folders, "github.com/redis/go-redis/v9")
	for path, versions := range folders {
		assert.Len(t, versions, 1, "go get %s@latest in all of them, then go mod tidy", path)
	}
}
