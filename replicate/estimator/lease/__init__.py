"""Writer lease: one process at a time may write checkpoints into a model directory.

`claim.py` takes the lease, `writer_lease.py` renews and releases it and owns its record,
`lease_folder.py` owns its files, and `process_identity.py` tells if a holder has died.
"""
