"""What runs in the device process: the only room that imports kernels and touches a device."""
