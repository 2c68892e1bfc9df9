"""Writer lease: one process at a time may write checkpoints into a model directory.

`claim.py` takes the lease, `writer_lease.py` renews and releases it, `lease_folder.py` owns its
files, `lease_record.py` their content, and `process_identity.py` tells if a holder has died.
"""
