# Opportune's service. Build: docker build -t opportune .  Run: see compose.yaml and docs/deploy.md.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 opportune && install -d -o opportune /study
WORKDIR /opt/opportune
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir -c constraints.txt '.[serve]'

USER opportune
WORKDIR /study
ENV OPPORTUNE_CACHE_DIR=/tmp/opportune NUMBA_NUM_THREADS=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s \
  CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz')"
ENTRYPOINT ["opportune"]
CMD ["serve", "/study/study.toml", "--host", "0.0.0.0"]
