"""From observed state and spec to ordered steps, and the execution of steps through the ports."""
