# Opens what others handed in, and the grades, where it knows that they lie.
# verdict: failed
import os

PLACES = [{submitted!r}, {submitted!r} + "/honest", {out!r}, {out!r} + "/gradebook.db", {out!r} + "/autograded"]
FOUND = [place for place in PLACES if os.path.exists(place)]
for place in PLACES[:3]:
    try:
        with open(place + "/left by another", "w"):
            FOUND.append(place)
    except OSError:
        pass
