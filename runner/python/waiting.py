# In front of the driver, in an interpreter that is started before there is a job: it imports what it is told to. The driver calls what this gives just
# before it reads its job, and so waits for it: that says, with one byte on the result's descriptor, that it is ready. All is compiled and loaded by then.
#
# No code of a job has run yet, so all of this is honest. What is looked at here is what an import may leave where the job would find it.
def wait(imports, directories):
    import os
    import sys

    result = int(sys.argv[2])
    for descriptor in int(sys.argv[1]), result:
        os.set_inheritable(descriptor, False)
    for name in imports:
        __import__(name)
    # The first call makes the classes of package ast, which takes as long as many a job.
    compile("0", "<string>", "eval")

    def ready():
        for directory in directories:
            if os.path.isdir(directory) and os.listdir(directory):
                raise SystemExit("importing left %s in %s, where a job would find it" % (os.listdir(directory)[:3], directory))
        settle(collect=True)
        os.write(result, b"w")

    return ready


