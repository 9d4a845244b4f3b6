# The app in a small image: no compiler, no development packages, not root, nothing written outside /data and /tmp.
FROM node:26-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY . .
RUN node scripts/build.ts
WORKDIR /build/dist
COPY package-lock.json ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts && npm cache clean --force
# Declarations and source maps are for development: a third of the files' size.
RUN find . -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete

FROM node:26-bookworm-slim
# bubblewrap is for the sandbox of the operating system; without it, or where namespaces are not allowed, that tier is off.
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap git ca-certificates && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATABASE_URL=file:/data/golem-forge.db
WORKDIR /app
COPY --from=build --chown=root:root /build/dist ./
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + '/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "src/main.js"]
