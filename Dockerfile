# An image in which both commands of the README run: `make train`, and `make test`.
#
#   docker build -t replicate .                            for CPUs
#   docker build -t replicate --build-arg TF=gpu .         for GPUs: run it with --gpus=all
#   docker run --rm -v "$PWD/runs:/home/trainer/src/runs" replicate
#   docker run --rm replicate make test
ARG PYTHON=3.12
FROM python:${PYTHON}-slim-bookworm

# Versions of Debian's packages change with its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

# Who can end the process can read and write what its user can.
RUN useradd --create-home --uid=1000 trainer
USER 1000
WORKDIR /home/trainer/src

# cpu, gpu or pre: see `make help`.
ARG TF=cpu
ENV PIP_NO_CACHE_DIR=1

COPY --chown=1000:1000 . .
RUN make setup TF="${TF}"

CMD ["make", "train"]
