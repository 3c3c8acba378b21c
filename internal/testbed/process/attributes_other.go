//go:build unix && !linux

package process

import "syscall"

// attributes gives the child a group of its own. Only Linux can tie its life
// to ours.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
