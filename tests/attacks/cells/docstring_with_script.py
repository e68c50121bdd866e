# HTML in source, in an exception and in a name.
# verdict: failed
def row_softmax(x):
    """<script>document.title = "owned"</script><img src=x onerror=alert(1)>"""
    return x
