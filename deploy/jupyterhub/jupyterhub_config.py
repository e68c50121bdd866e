"""JupyterHub for one course, whose users have accounts on this machine. docs/jupyterhub.md says how to set it up.

The hub runs as root: it lets people log in with their system password, and starts each one's server as that user.
"""

c = get_config()  # noqa: F821 - JupyterHub defines it

LEARNERS = "/opt/torchcourse"  # a Python environment with the wheel; it has no answers
CHECKOUT = "/home/instructor/torchcourse"  # the course with its answers; only the instructor may enter it
CLASS = "/home/instructor/spring"  # made by `torchcourse class init`
INSTRUCTORS = {"instructor"}
GROUP = "learners"  # the system group of the learners; the name of an account is the id on the roster
PROXY = "/srv/jupyterhub/node_modules/.bin/configurable-http-proxy"

c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # a web server with TLS goes in front of it
c.ConfigurableHTTPProxy.command = [PROXY]

c.PAMAuthenticator.allowed_groups = {GROUP}
c.PAMAuthenticator.allowed_users = INSTRUCTORS
c.JupyterHub.load_groups = {"instructors": {"users": sorted(INSTRUCTORS)}}

c.Spawner.cmd = [f"{LEARNERS}/bin/jupyterhub-singleuser"]
c.Spawner.environment = {"PATH": f"{LEARNERS}/bin:/usr/local/bin:/usr/bin:/bin"}
c.Spawner.start_timeout = c.Spawner.http_timeout = 300  # a whole class may log in at once
c.Spawner.group_overrides = {
    "instructors": {
        "groups": ["instructors"],
        "spawner_override": {
            "cmd": ["env", "-C", CLASS, f"{CHECKOUT}/.venv/bin/jupyterhub-singleuser"],
            "environment": {"PATH": f"{CHECKOUT}/.venv/bin:/usr/local/bin:/usr/bin:/bin"},
        },
    }
}
