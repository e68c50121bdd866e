"""nbgrader's configuration for learners: the course, and the exchange that they share with the instructor."""

c = get_config()  # noqa: F821 - traitlets defines it

c.CourseDirectory.course_id = "torchcourse"  # as at `torchcourse class init --name`
c.Exchange.root = "/srv/exchange"  # as at `torchcourse class init --exchange`
