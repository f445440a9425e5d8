# What a run of the flow needs, without the code and the data: an image for a
# Prefect work pool of type docker (examples/prefect-docker.yaml).
#
#   docker build --tag stylerl .
FROM python:3.11.7-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home stylerl

COPY requirements.lock /opt/
RUN pip install --no-cache-dir \
        --index-url https://download.pytorch.org/whl/cpu \
        "$(grep '^torch==' /opt/requirements.lock)" \
    && pip install --no-cache-dir -r /opt/requirements.lock

# The code comes with the deployment's `pull`, into the folder of the run.
ENV PYTHONPATH=.
USER stylerl
WORKDIR /home/stylerl
