# What a release consists of. Each workflow in .github/workflows calls these targets, and does nothing else.

VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
REGISTRY ?= ghcr.io/ottla
PLATFORMS ?= linux/amd64,linux/arm64
# --push is the only output that keeps several platforms, SBOM and provenance; IMAGE_OUTPUT=--load tries one platform.
IMAGE_OUTPUT ?= --push
IMAGES := broker operator spark
CHARTS := ottla-operator ottla-cluster
TOOLS := build/tools
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.7

.PHONY: workflows wheel sbom images charts-package charts-push sign publish

workflows: ## Lint .github/workflows, where Go is there.
	@if command -v go >/dev/null; then go run $(ACTIONLINT) -shellcheck= -pyflakes=; \
		else echo "go is not there: the workflows are not linted"; fi

$(TOOLS)/.installed: release.mk
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet 'build>=1.2' 'cyclonedx-bom>=7'
	@touch $@

wheel: $(TOOLS)/.installed ## Wheel and sdist in dist/, and the wheel tried in an environment of its own.
	$(TOOLS)/bin/python -m build --outdir dist .
	$(PYTHON) -m venv --clear build/installed
	build/installed/bin/python -m pip install --quiet $(PIP_ARGUMENTS) 'ottla[broker,operator] @ file://$(CURDIR)/dist/ottla-$(VERSION)-py3-none-any.whl'
	build/installed/bin/ottla --version

sbom: wheel ## Software bill of materials of the installed wheel (CycloneDX); images carry theirs.
	$(TOOLS)/bin/cyclonedx-py environment --output-reproducible --of JSON \
		-o dist/ottla-$(VERSION).cdx.json build/installed/bin/python

images: $(IMAGES:%=image-%) ## Images for PLATFORMS with SBOM and provenance, pushed to REGISTRY; needs docker buildx.

image-%:
	@mkdir -p build/images
	docker buildx build --platform $(PLATFORMS) --sbom=true --provenance=mode=max \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) \
		-f images/$*/Dockerfile -t $(REGISTRY)/$*:$(VERSION) --metadata-file build/images/$*.json $(IMAGE_OUTPUT) .

charts-package: ## Charts as archives in dist/charts; needs helm.
	@mkdir -p dist/charts
	helm package --destination dist/charts $(CHARTS:%=charts/%)

charts-push: charts-package ## Charts as OCI artifacts in REGISTRY/charts; needs helm.
	@mkdir -p build/charts
	set -e; for chart in $(CHARTS); do \
		helm push dist/charts/$$chart-$(VERSION).tgz oci://$(REGISTRY)/charts 2>&1 | tee build/charts/$$chart.txt; \
		grep -q '^Digest: ' build/charts/$$chart.txt; done

sign: ## Sign images, charts and files of dist/ with cosign; in a workflow with its OIDC identity, without a key.
	set -e; for image in $(IMAGES); do \
		digest=$$($(PYTHON) -c 'import json, sys; print(json.load(open(sys.argv[1]))["containerimage.digest"])' build/images/$$image.json); \
		cosign sign --yes --recursive $(REGISTRY)/$$image@$$digest; done
	set -e; for chart in $(CHARTS); do \
		digest=$$(sed -n 's/^Digest: //p' build/charts/$$chart.txt); \
		cosign sign --yes $(REGISTRY)/charts/$$chart@$$digest; done
	set -e; for file in dist/ottla-$(VERSION)*.whl dist/ottla-$(VERSION).tar.gz dist/ottla-$(VERSION).cdx.json; do \
		cosign sign-blob --yes --bundle $$file.sigstore.json $$file; done

publish: ## A release on GitHub with the files of dist/; needs gh and a tag vVERSION.
	gh release create v$(VERSION) --verify-tag --title 'Ottla $(VERSION)' --notes-file CHANGELOG.md \
		dist/ottla-$(VERSION)* dist/charts/*.tgz
