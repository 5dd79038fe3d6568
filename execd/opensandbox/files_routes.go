package opensandbox

// filesRoutes are the calls that name files and directories.
func (f *Facade) filesRoutes() []route { return nil }
