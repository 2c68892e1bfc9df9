"""Order of work: batches, ops that take turns, roles of workers, threads that repeat updates.

Their public names are those of the modules `kfac.data_reader`, `kfac.op_queue`,
`kfac.worker_roles` and `kfac.batch_execute`.
"""
